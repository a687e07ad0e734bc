// The package is the same to the byte whoever packs it: as `make client` did, and elsewhere at another time.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, utimesSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const project = fileURLToPath(new URL("..", import.meta.url));

test("packed elsewhere, at another time, it is the package of make client", async () => {
  const folder = mkdtempSync(join(tmpdir(), "pack"));
  try {
    for (const name of ["package.json", "tsconfig.json", "README.md", "src"]) cpSync(join(project, name), join(folder, name), { recursive: true });
    utimesSync(join(folder, "package.json"), 1e9, 1e9);
    symlinkSync(join(project, "node_modules"), join(folder, "node_modules"));
    await promisify(execFile)("npm", ["pack", "--silent"], { cwd: folder, env: { ...process.env, TZ: "Asia/Tokyo" } });
    const name = readdirSync(folder).find((name) => name.endsWith(".tgz"));
    const packed = readFileSync(join(folder, name));
    assert.ok(packed.length > 10_000);
    assert.ok(packed.equals(readFileSync(join(project, "../../bin", name))));
  } finally {
    rmSync(folder, { recursive: true });
  }
});
