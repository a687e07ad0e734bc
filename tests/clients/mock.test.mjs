// The commands and the file of docs/typescript/tests.md, exactly: its tests pass in a project of their own.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { readme, writeFiles } from "../browser/readme.mjs";

const repository = join(import.meta.dirname, "../..");
const { version } = JSON.parse(readFileSync(join(repository, "gen/typescript/package.json")));

test("the tests of the page pass with Vitest", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "worldevents-mock-"));
  t.after(() => rm(folder, { recursive: true, maxRetries: 5 }));
  const { commands, files } = await readme("With Vitest", "docs/typescript/tests.md");
  await writeFile(join(folder, "package.json"), '{ "private": true, "type": "module" }');
  await writeFiles(folder, files);
  const run = (command) => promisify(execFile)("sh", ["-ec", command], { cwd: folder, env: { ...process.env, NO_COLOR: "1" } });
  await run(`npm install ${repository}/bin/worldevents-client-${version}.tgz`);
  let said;
  for (const command of commands) ({ stdout: said } = await run(command).catch((error) => assert.fail(error.stdout + error.stderr)));
  const [test] = Object.keys(files);
  const count = files[test].match(/^test\(/gm).length;
  assert.match(said, new RegExp(`Tests +${count} passed`), said);
});
