// The package is the same to the byte whoever packs it.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, utimesSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const project = fileURLToPath(new URL("..", import.meta.url));

async function pack(time) {
  const folder = mkdtempSync(join(tmpdir(), "pack"));
  try {
    for (const name of ["package.json", "tsconfig.json", "README.md", "src"]) cpSync(join(project, name), join(folder, name), { recursive: true });
    utimesSync(join(folder, "package.json"), time, time);
    symlinkSync(join(project, "node_modules"), join(folder, "node_modules"));
    await promisify(execFile)("npm", ["pack", "--silent"], { cwd: folder, env: { ...process.env, TZ: time ? "Asia/Tokyo" : "UTC" } });
    return readFileSync(join(folder, readdirSync(folder).find((name) => name.endsWith(".tgz"))));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test("two packages of the same source are equal", async () => {
  const packages = await Promise.all([pack(0), pack(1e9)]);
  assert.ok(packages[0].length > 10_000);
  assert.ok(packages[0].equals(packages[1]));
});
