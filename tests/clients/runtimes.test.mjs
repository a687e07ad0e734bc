// The packed client on the runtimes of servers: one program on each, against the real service.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { build } from "esbuild";
import { eventually, freePort, startService } from "../browser/service.mjs";
import { bun, deno, node24, node26, skipWithout, workerd } from "./runtimes/installed.mjs";

const exec = promisify(execFile);
const here = import.meta.dirname;
const { version } = JSON.parse(readFileSync(join(here, "../../gen/typescript/package.json")));
let service, folder;

before(async () => {
  service = await startService();
  folder = await mkdtemp(join(tmpdir(), "worldevents-runtimes-"));
  await cp(join(here, "runtimes"), folder, { recursive: true });
  await mkdir(join(folder, "node_modules/worldevents-client"), { recursive: true });
  await exec("tar", ["xzf", join(here, `../../bin/worldevents-client-${version}.tgz`), "--strip-components=1", "-C", join(folder, "node_modules/worldevents-client")]);
  await writeFile(join(folder, "package.json"), '{ "private": true, "type": "module" }');
});
after(async () => {
  await service?.stop();
  if (folder) await rm(folder, { recursive: true, maxRetries: 5 });
});

/** Runs the program where a command line does. */
const command = (...args) => async (program, cookie, world) => {
  const env = { PATH: process.env.PATH, HOME: folder, DENO_NO_UPDATE_CHECK: "1", NO_COLOR: "1" };
  const { stdout, stderr } = await exec(program, [...args, "main.mjs", service.address, cookie, world], { cwd: folder, env });
  assert.equal(stderr, "");
  return JSON.parse(stdout);
};

/** Runs the program in a worker that responds to a request. */
async function worker(program, cookie, world) {
  const port = await freePort();
  await build({ entryPoints: [join(folder, "worker.mjs")], bundle: true, format: "esm", conditions: ["workerd"], outfile: join(folder, "bundle.mjs"), logLevel: "warning" });
  await writeFile(join(folder, "workerd.capnp"), `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = (
      modules = [(name = "worker", esModule = embed "bundle.mjs")], compatibilityDate = "2026-01-01", globalOutbound = "network")),
    (name = "network", network = (allow = ["private", "public"])),
  ],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")],
);
`);
  const child = spawn(program, ["serve", "workerd.capnp"], { cwd: folder, stdio: ["ignore", "inherit", "inherit"] });
  const ended = once(child, "exit");
  try {
    const url = `http://127.0.0.1:${port}/?${new URLSearchParams({ service: service.address, world })}`;
    let response;
    await eventually("workerd serves", async () => {
      assert.equal(child.exitCode, null, "workerd has ended");
      return (response = await fetch(url, { headers: { Cookie: cookie } }).catch(() => undefined));
    });
    const text = await response.text();
    assert.equal(response.status, 200, text);
    return JSON.parse(text);
  } finally {
    child.kill();
    await ended;
  }
}

const runtimes = {
  [`Node ${process.versions.node.split(".")[0]}, which runs the tests`]: [process.execPath, command()],
  "Node 24": [node24, command()],
  "Node 26": [node26, command()],
  Bun: [bun, command("run")],
  Deno: [deno, command("run", "--allow-net", "--allow-read", "--no-prompt")],
  workerd: [workerd, worker],
};

for (const [i, [name, [program, run]]] of Object.entries(runtimes).entries()) {
  test(name, { skip: skipWithout(program) }, async () => {
    const { token, refreshToken } = await service.issue("alice");
    assert.deepEqual(await run(program, `theme=dark; token=${token}; refreshToken=${refreshToken}`, `world-${i}`), {
      user: "alice",
      left: true,
      list: "Rooftop concert: ",
      same: 304,
      lists: ["Rooftop concert: ", "Rooftop concert: alice"],
      all: ["Rooftop concert"],
      bad: ["validation_failed", ["name"]],
      thrown: [true, "validation_failed"],
      aborted: "no longer",
      nobody: ["No token", "no_token"],
    });
  });
}
