// The packed client as npm, bundlers and TypeScript see it: nothing to find for those who look for faults of packages.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";

const exec = promisify(execFile);
const bin = (name) => join(import.meta.dirname, "node_modules/.bin", name);
const project = join(import.meta.dirname, "../../gen/typescript");
const { version } = JSON.parse(readFileSync(join(project, "package.json")));
const packed = join(import.meta.dirname, `../../bin/worldevents-client-${version}.tgz`);
let folder, files;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "worldevents-package-"));
  await exec("tar", ["xzf", packed, "-C", folder]);
  files = (await readdir(join(folder, "package"), { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name).slice(join(folder, "package/").length)).sort();
});
after(() => rm(folder, { recursive: true }));

/** What README.md links to, and the code that these pages link to. */
const linked = /^dist\/(docs\/typescript|examples\/react|tests\/(guards|browser)\/(next|nuxt|sveltekit|vue|svelte))\//;

const read = (file) => readFileSync(join(folder, "package", file), "utf8");

for (const [name, args] of [
  ["publint", ["run", packed, "--strict"]],
  ["attw", [packed, "--profile", "esm-only", "--no-emoji"]], // CommonJS gets it by import(), and Node 10 not at all
]) {
  test(`${name} finds nothing`, async () => {
    const { code = 0, stdout, stderr } = await exec(bin(name), args, { env: { ...process.env, NO_COLOR: "1" } }).catch((error) => error);
    assert.equal(code, 0, stdout + stderr);
    assert.doesNotMatch(stdout, /suggestion|warning/i);
  });
}

test("npm packs it without a warning, with nothing but what is used, and runs nothing where it is installed", async () => {
  const { stdout, stderr } = await exec("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], { cwd: project });
  assert.equal(stderr, "");
  assert.deepEqual(JSON.parse(stdout)[0].files.map(({ path }) => path).sort(), files);
  assert.deepEqual(files.filter((file) => !/^(README\.md|package\.json|dist\/.*\.(js|d\.ts))$/.test(file) && !linked.test(file)), []);
  const { scripts } = JSON.parse(read("package.json"));
  const installing = ["preinstall", "install", "postinstall", "prepublish", "preprepare", "prepare", "postprepare"];
  assert.deepEqual(installing.filter((name) => scripts[name]), []);
});

test("a bundle has nothing for what the service does not have: server-sent events, and tokens in headers", () => {
  assert.deepEqual(files.filter((file) => /event-stream|createSse|setAuthParams|getAuthToken/i.test(read(file))), []);
});

test("every file that it names is in it", () => {
  const named = [];
  for (const file of files.filter((file) => file.endsWith(".md") || !linked.test(file))) {
    const pattern = file.endsWith(".md") ? /\]\(([^)]*)\)/g : /(?:from |import\()["'](\.[^"']*)["']|# sourceMappingURL=(.*)/g;
    for (const [, ...paths] of read(file).matchAll(pattern)) named.push([file, paths.find(Boolean)]);
  }
  const isThere = (path) => files.some((file) => file === path || file.startsWith(`${path}/`));
  const missing = named.filter(([file, path]) => !/^(https:|#)/.test(path) && !isThere(join(dirname(file), path.split("#")[0])));
  assert.deepEqual(missing, []);
  assert.ok(named.length > 20);
});
