// Generates a client with each generator from the contract that the service publishes, type-checks a program against
// it, and runs the program. programs/NAME.ts uses generated/NAME, made by the command below.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { build } from "esbuild";
import { fetchWithCookies, startService } from "../browser/service.mjs";

process.chdir(import.meta.dirname);

const contract = "./generated/openapi.json";
const generators = {
  "openapi-fetch": `openapi-typescript ${contract} -o generated/openapi-typescript.ts`,
  "hey-api": `openapi-ts -i ${contract} -o generated/hey-api`,
  orval: "orval --config orval.config.mjs",
  kubb: "kubb generate --config kubb.config.mjs",
  "swagger-typescript-api": `swagger-typescript-api generate -p ${contract} -o generated -n swagger-typescript-api.ts --disable-throw-on-error`,
};

let service;
before(async () => {
  service = await startService();
  await rm("generated", { recursive: true, force: true });
  await mkdir("generated");
  const published = await fetch(`${service.address}/openapi.json`);
  await writeFile(contract, await published.text());
});
after(() => service?.stop());

for (const [name, command] of Object.entries(generators)) {
  test(`${name} makes a client that type-checks`, async () => {
    await run(command);
    await writeFile(`generated/tsconfig.${name}.json`, JSON.stringify({
      extends: "../tsconfig.json", include: [], files: [`../programs/${name}.ts`],
    }));
    await run(`tsc -p generated/tsconfig.${name}.json`);
  });

  test(`${name}'s client works`, async () => {
    const program = `generated/${name}.program.mjs`;
    await build({ entryPoints: [`programs/${name}.ts`], bundle: true, format: "esm", outfile: program, logLevel: "warning" });
    const real = globalThis.fetch;
    globalThis.fetch = fetchWithCookies(await service.issue("alice"));
    try {
      const { run } = await import(`./${program}`);
      assert.deepEqual(await run(service.address, name), {
        active: true,
        user: "alice",
        refused: ["400 name", "401 no_token", "404 event_not_found"],
        done: [true, true, true, true],
        before: ["Rooftop concert: alice"],
        after: ["Rooftop concert: "],
      });
    } finally {
      globalThis.fetch = real;
    }
  });
}

async function run(command) {
  const [program, ...args] = command.split(" ");
  try {
    await promisify(execFile)(`node_modules/.bin/${program}`, args, { env: { ...process.env, NO_COLOR: "1" } });
  } catch (error) {
    throw new Error(`${command}\n${error.stdout}${error.stderr}`);
  }
}
