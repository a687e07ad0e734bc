// Generates a client with each generator from the contract that the service publishes, type-checks a program against
// each, and runs it. programs/NAME.ts uses what the commands below have generated.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { build } from "esbuild";
import { readme, writeFiles } from "../browser/readme.mjs";
import { fetchWithCookies, startService } from "../browser/service.mjs";
import { cases, differences } from "./cases.mjs";

process.chdir(import.meta.dirname);

const contract = "./generated/openapi.json";
const generators = [
  `openapi-typescript ${contract} -o generated/schema.ts`,
  "openapi-ts -f hey-api.config.mjs",
  "orval --config orval.config.mjs",
  "kubb generate --config kubb.config.mjs",
  `swagger-typescript-api generate -p ${contract} -o generated -n swagger-typescript-api.ts --disable-throw-on-error`,
  `openapi --input ${contract} --output generated/openapi-typescript-codegen --postfixModels Model`,
];

const watched = ["200 1", "304 none", "200 2"];

let service;
before(async () => {
  service = await startService();
  await rm("generated", { recursive: true, force: true });
  await mkdir("generated");
  const published = await fetch(`${service.address}/openapi.json`);
  await writeFile(contract, await published.text());
  const { files } = await readme("Keep the session", "docs/clients.md"); // tests/browser runs it
  await Promise.all([...generators.map(run), writeFiles("generated", files)]);
});
after(() => service?.stop());

test("the programs type-check", () => run("tsc"));

for (const name of ["openapi-fetch", "hey-api", "orval", "kubb", "swagger-typescript-api"]) {
  test(`${name}'s client works`, async () => {
    assert.deepEqual(await runProgram(name), {
      active: true,
      user: "alice",
      refused: ["400 name", "401 no_token", "404 event_not_found"],
      done: [true, true, true, true],
      before: ["Rooftop concert: alice"],
      after: ["Rooftop concert: "],
      watched,
    });
  });
}

test("openapi-typescript-codegen's client watches a list", async () => {
  assert.deepEqual(await runProgram("openapi-typescript-codegen"), watched);
});

for (const name of ["hey-api-query", "orval-query", "kubb-query", "openapi-react-query"]) {
  test(`${name}'s queries and mutations work`, async () => {
    assert.deepEqual(await runProgram(name), {
      authenticated: true,
      done: [true, true, true, true],
      before: ["Rooftop concert: "],
      after: ["Rooftop concert: alice"],
      refused: ["validation_failed name", "no_token", "event_not_found"],
    });
  });
}

test("orval's handlers for MSW respond as the schemas say", async () => {
  const { run } = await load("orval-msw");
  const { lists } = await load("schemas");
  const { made, ...others } = await run();
  assert.deepEqual(others, { authenticated: true, done: [true, true, true, true], given: { events: [] } });
  assert.ok(made.events.length > 0);
  for (const [name, fits] of Object.entries(lists)) assert.ok(fits(made), `${name}: ${JSON.stringify(made)}`);
});

test("schemas and service agree", async () => {
  const { lists, schemas } = await load("schemas");
  const call = fetchWithCookies(await service.issue("carol"));
  const wrong = [];
  for (const [name, { fits, unlike, ...value }] of Object.entries(cases)) {
    const [kind] = Object.keys(value);
    const said = await ask(call, value);
    if (said !== fits) wrong.push(`${name}: the service says ${said}`);
    for (const [schema, { [kind]: check }] of Object.entries(schemas)) {
      const differs = differences[schema.split(" ")[1]].includes(unlike);
      if (check(value[kind]) !== (fits !== differs)) wrong.push(`${name}: ${schema} says ${!fits === differs}`);
    }
  }
  assert.deepEqual(wrong, []);
  assert.ok(Object.keys(cases).length > 100);

  const list = await (await call(`${service.address}/api/event/plaza`)).json();
  assert.ok(list.events.length > 20);
  for (const [schema, fits] of Object.entries(lists)) {
    const unlike = list.events.filter((event) => !fits({ events: [event] }));
    assert.ok(unlike.every(({ name, description }) => schema.endsWith("valibot") && /\p{Emoji}{101}/u.test(name + description)), schema);
  }
});

/** Reports whether the service takes an event, a world or a query. Whatever it refuses, it refuses for this. */
async function ask(call, { event, world = "plaza", query }) {
  const url = new URL(`${service.address}/api/event/${encodeURIComponent(world)}`);
  for (const [name, value] of Object.entries(query ?? {})) url.searchParams.set(name, value);
  const write = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(event) };
  const response = await call(url, event === undefined ? {} : write);
  const body = await response.json();
  if (!response.ok) assert.equal(body.code, "validation_failed", JSON.stringify(body));
  return response.ok;
}

/** Runs a program as alice in a world of its own, where bob makes an event when it says so. */
async function runProgram(name) {
  const { run } = await load(name);
  const real = globalThis.fetch;
  const bob = fetchWithCookies(await service.issue("bob"));
  globalThis.fetch = fetchWithCookies(await service.issue("alice"));
  try {
    return await run(service.address, name, () => service.create(bob, name));
  } finally {
    globalThis.fetch = real;
  }
}

/** Loads programs/NAME.ts. */
async function load(name) {
  const outfile = `generated/${name}.program.mjs`;
  await build({ entryPoints: [`programs/${name}.ts`], bundle: true, packages: "external", format: "esm", outfile, logLevel: "warning" });
  return import(`./${outfile}`);
}

async function run(command) {
  const [program, ...args] = command.split(" ");
  try {
    await promisify(execFile)(`node_modules/.bin/${program}`, args, { env: { ...process.env, NO_COLOR: "1" } });
  } catch (error) {
    throw new Error(`${command}\n${error.stdout}${error.stderr}`);
  }
}
