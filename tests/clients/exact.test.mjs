// The client's types under exactOptionalPropertyTypes, with which what may be absent is not what may be undefined.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";

process.chdir(import.meta.dirname);

test("undefined is taken wherever absence is", async () => {
  const { stdout } = await promisify(execFile)("node_modules/.bin/tsc", ["-p", "exact"]).catch((error) => error);
  assert.equal(stdout, "");
});
