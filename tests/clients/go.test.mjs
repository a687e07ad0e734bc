// Clients in Go: each tool generates one from the contract that the service publishes, and a program watches a list with it.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { startService } from "../browser/service.mjs";

const generators = {
  "github.com/ogen-go/ogen/cmd/ogen": "--config ogen/ogen.yml --target ogen/api --package api openapi.json",
  "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen": "-generate types,client -package api -o oapi-codegen/api/api.go openapi.json",
};
let service, folder;

before(async () => {
  service = await startService();
  folder = await mkdtemp(join(tmpdir(), "worldevents-go-"));
  await cp(join(import.meta.dirname, "go"), folder, { recursive: true });
  await mkdir(join(folder, "oapi-codegen/api"));
  await writeFile(join(folder, "openapi.json"), await (await fetch(`${service.address}/openapi.json`)).text());
});
after(async () => {
  await service?.stop();
  if (folder) await rm(folder, { recursive: true });
});

/** What the go command prints, in the module. Paths are no part of what it builds, so that it is built once. */
async function go(...args) {
  const { stdout } = await promisify(execFile)("go", args, { cwd: folder, env: { ...process.env, GOFLAGS: "-trimpath", GOWORK: "off" } });
  return stdout;
}

for (const [tool, options] of Object.entries(generators)) {
  const name = basename(tool);
  test(`${name}'s client watches a list`, async () => {
    await go("run", tool, ...options.split(" "));
    const tokens = [await service.issue("alice"), await service.issue("bob")].map(({ token }) => token);
    assert.equal(await go("run", `./${name}`, service.address, name, ...tokens), "200 1\n304 0\n200 2\n");
  });
}
