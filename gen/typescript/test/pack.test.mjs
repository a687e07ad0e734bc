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
  const elsewhere = mkdtempSync(join(tmpdir(), "pack"));
  const folder = join(elsewhere, "gen/typescript");
  try {
    for (const name of ["package.json", "tsconfig.json", "README.md", "pages", "src"]) cpSync(join(project, name), join(folder, name), { recursive: true });
    for (const name of ["docs/typescript", "examples/react", "tests/guards", "tests/browser"]) {
      cpSync(join(project, "../..", name), join(elsewhere, name), { recursive: true, filter: (path) => !/\/(node_modules|dist|\.\w+)$/.test(path) });
    }
    utimesSync(join(folder, "package.json"), 1e9, 1e9);
    symlinkSync(join(project, "node_modules"), join(folder, "node_modules"));
    await promisify(execFile)("npm", ["pack", "--silent"], { cwd: folder, env: { ...process.env, TZ: "Asia/Tokyo" } });
    const name = readdirSync(folder).find((name) => name.endsWith(".tgz"));
    const packed = readFileSync(join(folder, name));
    assert.ok(packed.length > 10_000);
    assert.ok(packed.equals(readFileSync(join(project, "../../bin", name))));
  } finally {
    rmSync(elsewhere, { recursive: true });
  }
});
