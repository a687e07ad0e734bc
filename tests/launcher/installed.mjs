// Installs the packages as a frontend team does: in an empty folder, with Node and npm alone in PATH, and no registry.
import assert from "node:assert/strict";
import { execFile, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, symlinkSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { eventually, fetchWithCookies, freePort, patience } from "../browser/service.mjs";

const repository = join(import.meta.dirname, "../..");

/** Below it is all that the tests make. */
export const top = realpathSync(mkdtempSync(join(tmpdir(), "worldevents-launcher-")));
const tools = folder("tools");
symlinkSync(process.execPath, join(tools, "node"));
symlinkSync(realpathSync(execFileSync("which", ["npm"], { encoding: "utf8" }).trim()), join(tools, "npm"));

/** What else a developer may have in the environment: nothing of it is meant for this service. */
const env = {
  PATH: tools, HOME: top, APP_ENV: "production", DATABASE_URL: "postgres://db.example.org/another", JWT_SECRET: "another", LISTEN_ADDR: ":1", PORT: "1",
};

const here = `${process.platform}/${process.arch === "x64" ? "amd64" : process.arch}`;

/** The packages. Those of other machines have some file as their program. */
export const packages = folder("packages");
execFileSync("node", [
  join(repository, "gen/launcher/pack.mjs"), packages,
  ...["linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"].map((machine) =>
    `${machine}=${join(repository, machine === here ? "bin/worldevents" : "openapi.yaml")}`),
], { stdio: "inherit" });

/** A new folder. */
export function folder(name) {
  const path = join(top, name);
  mkdirSync(path);
  return path;
}

/** The command of the README, for a folder `vendor` with the packages. */
const [, command] = readFileSync(join(repository, "gen/launcher/README.md"), "utf8").match(/^(npm install .*)$/m);

/** Installs packages, by the names of their files, into a new folder, and returns it with the paths that the registry was asked for. */
export async function install(name, files) {
  const asked = [];
  const registry = http.createServer((request, response) => {
    asked.push(request.url);
    response.writeHead(404).end();
  }).listen(0, "127.0.0.1");
  await once(registry, "listening");
  const cwd = folder(name);
  folder(`${name}/vendor`);
  for (const file of files) copyFileSync(join(packages, file), join(cwd, "vendor", file));
  await promisify(execFile)("/bin/sh", ["-ec", command], {
    cwd, env: {
      ...env, npm_config_registry: `http://127.0.0.1:${registry.address().port}`, npm_config_cache: join(top, "cache"),
      npm_config_audit: "false", npm_config_update_notifier: "false", // which ask for what concerns all packages
    },
  });
  registry.close();
  return { folder: cwd, asked };
}

export const files = readdirSync(packages);
export const project = await install("project", files);

/** The launcher in the project, or in another one. */
const launcher = (of) => join(of.folder, "node_modules/.bin/worldevents");

/** Runs the command until it ends. */
export async function run(cwd, args, { of = project, more = {} } = {}) {
  const { child, said } = spawnGroup(launcher(of), args, { cwd, env: { ...env, ...more } });
  const [code, signal] = await once(child, "close");
  return { code, signal, ...said };
}

/** Starts the command, and waits until it serves. Whatever it has started ends with the test. */
export async function start(t, cwd, ...args) {
  const port = await freePort();
  const { child, said, killAll } = spawnGroup(launcher(project), ["--port", port, ...args], { cwd, env });
  const ended = once(child, "exit").then(([code, signal]) => ({ code, signal }));
  t.after(async () => {
    killAll();
    await ended;
  });
  const url = `http://localhost:${port}`;
  await eventually("it serves", () => {
    assert.equal(child.exitCode ?? child.signalCode, null, said.stderr);
    return said.stdout.includes(`serves ${url} `);
  });
  return { url, port, pid: child.pid, said, ended, kill: (signal) => child.kill(signal), killAll };
}

/** Signs a user in by the form that a browser has, and returns a fetch with the cookies. */
export async function signIn({ url }, username) {
  const call = fetchWithCookies();
  const response = await call(`${url}/sign-in`, {
    method: "POST", redirect: "manual", headers: { Origin: url }, body: new URLSearchParams({ username, return_to: "/docs" }),
  });
  assert.equal(response.status, 303);
  return call;
}

/** Starts a program in a process group of its own, which is killed when it has not ended after a while. */
function spawnGroup(file, args, options) {
  const child = spawn(file, args, { ...options, detached: true });
  const said = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"]) child[name].on("data", (text) => { said[name] += text; });
  const killAll = () => { try { process.kill(-child.pid, "SIGKILL"); } catch { /* all have ended */ } };
  const late = setTimeout(killAll, patience);
  child.on("exit", () => clearTimeout(late));
  return { child, said, killAll };
}
