// The launcher as it is installed: it serves the real program, with demo data that lasts or begins anew and with calls that are slow
// or fail, and ends as that ends.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import net from "node:net";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { eventually, fetchWithCookies, freePort } from "../browser/service.mjs";
import { files, folder, install, project, run, signIn, start, top } from "./installed.mjs";

after(() => rmSync(top, { recursive: true }));

const machine = `worldevents-${process.platform}-${process.arch}`;
const scopeOf = ({ folder }) => readdirSync(join(folder, "node_modules")).find((name) => name.startsWith("@"));
const names = async (response) => (await response.json()).events.map(({ name }) => name);
const event = (name) => ({
  method: "POST", headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ name, description: "", scheduledAt: "2030-01-02T03:04:05Z" }),
});

test("npm installs the program of this machine, asks the registry nothing, and runs no script", () => {
  assert.deepEqual(files.length, 5);
  assert.deepEqual(project.asked, []);
  const scope = join(project.folder, "node_modules", scopeOf(project));
  assert.deepEqual(readdirSync(scope), [machine]);
  assert.equal(statSync(join(scope, machine, "bin/worldevents")).mode & 0o777, 0o755);
  const [launcher, program] = [join(project.folder, "node_modules/worldevents"), join(scope, machine)]
    .map((path) => JSON.parse(readFileSync(join(path, "package.json"), "utf8")));
  assert.equal(launcher.scripts ?? program.scripts, undefined);
  const { version } = JSON.parse(readFileSync(join(import.meta.dirname, "../../gen/typescript/package.json"), "utf8"));
  assert.equal(program.version, version);
  assert.equal(launcher.version, version);
  assert.deepEqual(Object.entries(launcher.optionalDependencies), ["linux-x64", "linux-arm64", "darwin-x64", "darwin-arm64"]
    .map((machine) => [`${scopeOf(project)}/worldevents-${machine}`, version]));
});

test("it serves demo data on this machine alone, whatever settings the environment has", async (t) => {
  const cwd = folder("serves");
  const world = await start(t, cwd);
  const alice = await signIn(world, "alice");
  assert.deepEqual(await names(await alice(`${world.url}/api/event/plaza`)), ["Rooftop concert", "Chess night", "Garden planning"]);
  const reached = (host) => fetch(`http://${host}:${world.port}/api/auth/session`).then(({ status }) => status, () => "not");
  const others = Object.values(networkInterfaces()).flat().filter(({ family, internal }) => family === "IPv4" && !internal);
  const hasIPv6 = Object.values(networkInterfaces()).flat().some(({ address }) => address === "::1");
  assert.equal(await reached("127.0.0.1"), 400);
  if (hasIPv6) assert.equal(await reached("[::1]"), 400);
  for (const { address } of others) assert.equal(await reached(address), "not");

  const data = join(cwd, ".worldevents");
  assert.equal(statSync(data).mode & 0o777, 0o700);
  assert.equal(statSync(join(data, ".env")).mode & 0o777, 0o600);
  assert.equal(readFileSync(join(data, ".gitignore"), "utf8"), "*\n");
  assert.deepEqual(readdirSync(cwd), [".worldevents"]);
});

test("data lasts, and --fresh begins anew with the same settings", async (t) => {
  const cwd = folder("fresh");
  const serve = async (...args) => {
    const world = await start(t, cwd, ...args);
    const alice = await signIn(world, "alice");
    const list = await names(await alice(`${world.url}/api/event/plaza`));
    await alice(`${world.url}/api/event/plaza`, event("Boat trip"));
    world.kill("SIGINT");
    await world.ended;
    return list;
  };
  const demo = ["Rooftop concert", "Chess night", "Garden planning"];
  assert.deepEqual(await serve(), demo);
  const settings = readFileSync(join(cwd, ".worldevents/.env"), "utf8");
  assert.deepEqual(await serve(), [...demo, "Boat trip"]);
  assert.deepEqual(await serve("--fresh"), demo);
  assert.equal(readFileSync(join(cwd, ".worldevents/.env"), "utf8"), settings);
});

for (const name of ["", ".env", ".env.new", ".gitignore.new", "worldevents.db"]) {
  test(`it writes nothing through a link .worldevents/${name}`, async () => {
    const cwd = folder(`link-${name}`);
    const target = join(cwd, "target");
    if (name === "") mkdirSync(target);
    else mkdirSync(join(cwd, ".worldevents"));
    symlinkSync(target, join(cwd, ".worldevents", name));
    const { code, stderr } = await run(cwd, ["--port", String(await freePort())]);
    assert.equal(code, 1);
    assert.match(stderr, /\.worldevents.* is a link: remove it/);
    assert.deepEqual(name === "" ? readdirSync(target) : existsSync(target), name === "" ? [] : false);
  });
}

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  test(`${signal} to the launcher stops the service, and its status is 0`, async (t) => {
    const cwd = folder(signal);
    const world = await start(t, cwd);
    world.kill(signal);
    assert.deepEqual(await world.ended, { code: 0, signal: null });
    assert.match(world.said.stderr, / msg=stopping\n/);
    assert.deepEqual(readdirSync(join(cwd, ".worldevents")).filter((name) => name.startsWith("running")), []);
    const again = net.createServer().listen(world.port, "127.0.0.1"); // nobody has the port
    await once(again, "listening");
    again.close();
  });
}

const linux = { skip: process.platform !== "linux" && "needs Linux" };

test("it ends by the signal that has ended the service", linux, async (t) => {
  const world = await start(t, folder("killed"));
  const [service] = readFileSync(`/proc/${world.pid}/task/${world.pid}/children`, "utf8").trim().split(" ");
  process.kill(Number(service), "SIGKILL");
  assert.deepEqual(await world.ended, { code: null, signal: "SIGKILL" });
});

test("Ctrl-C in a terminal lets the service complete what it has begun", linux, async (t) => {
  const cwd = folder("terminal");
  const port = await freePort();
  const terminal = spawn("/usr/bin/script", ["-qec", `exec ${project.folder}/node_modules/.bin/worldevents --port ${port}`, "/dev/null"], {
    cwd, env: { ...process.env, SHELL: "/bin/sh" },
  });
  t.after(() => terminal.kill("SIGHUP")); // which it passes on as a terminal does that closes
  let said = "";
  terminal.stdout.on("data", (text) => { said += text; });
  await eventually("it serves", () => said.includes(`serves http://localhost:${port} `));

  const url = `http://localhost:${port}`;
  const { token } = JSON.parse((await run(cwd, ["session", "issue", "--json", "alice"])).stdout);
  const { body } = event("Boat trip");
  const call = net.connect(port, "127.0.0.1");
  t.after(() => call.destroy());
  let received = "";
  call.on("data", (text) => { received += text; }).on("error", () => {});
  call.write(`POST /api/event/plaza HTTP/1.1\r\nHost: localhost:${port}\r\nOrigin: ${url}\r\nCookie: token=${token}\r\n` +
    `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`);
  await eventually("the call is under way", async () => (await fetch(`${url}/api/auth/session`)).status === 400);
  terminal.stdin.write("\x03");
  await eventually("it stops", () => said.includes("msg=stopping"));
  for (const part of body.match(/.{1,8}/g)) { // still under way when a second signal would come, and never as long silent as the service allows
    call.write(part);
    await new Promise((next) => setTimeout(next, 5));
  }
  const [code] = await once(terminal, "exit");
  assert.match(received, /^HTTP\/1\.1 200 /);
  assert.equal(code, 0);
});

test("a JWT expires as --jwt-ttl says, or at once, and is refreshed", async (t) => {
  const cwd = folder("expired");
  const world = await start(t, cwd, "--jwt-ttl", "1s");
  const list = `${world.url}/api/event/plaza`;
  const alice = await signIn(world, "alice");
  await eventually("the JWT has expired", async () => (await (await alice(list)).json()).code === "token_expired");
  assert.equal((await alice(`${world.url}/api/auth/session`)).status, 200);
  world.kill("SIGINT");
  await world.ended;

  const { url } = await start(t, cwd);
  const issued = await run(cwd, ["session", "issue", "--json", "--expired", "alice"]);
  const call = fetchWithCookies(JSON.parse(issued.stdout));
  const before = await call(`${url}/api/event/plaza`);
  assert.equal((await before.json()).code, "token_expired");
  assert.equal((await call(`${url}/api/auth/session`)).status, 200);
  assert.equal((await call(`${url}/api/event/plaza`)).status, 200);
});

test("--latency delays calls, which wait for news all the same", async (t) => {
  const latency = 300;
  const world = await start(t, folder("latency"), "--latency", String(latency));
  const plaza = `${world.url}/api/event/plaza`;
  const [alice, bob] = [await signIn(world, "alice"), await signIn(world, "bob")];
  const began = performance.now();
  const list = await alice(plaza);
  assert.ok(performance.now() - began >= latency - 2); // timers have whole milliseconds
  assert.equal(list.status, 200);

  const news = alice(`${plaza}?wait=50`, { headers: { "If-None-Match": list.headers.get("ETag") } });
  assert.equal((await bob(plaza, event("Boat trip"))).status, 200);
  const { events } = await (await news).json();
  assert.equal(events.at(-1).name, "Boat trip");
  assert.equal((await alice(`${world.url}/api/auth/refresh`)).status, 200); // with the cookies of this origin
  assert.equal((await alice(plaza)).status, 200);
  world.kill("SIGINT");
  assert.deepEqual(await world.ended, { code: 0, signal: null });
});

test("--fail 503:1 fails each call as the service does, before it has an effect, and no page", async (t) => {
  const cwd = folder("fail");
  const world = await start(t, cwd, "--fail", "503:1");
  const alice = await signIn(world, "alice");
  for (const [path, init] of [["/api/auth/session"], ["/api/auth/refresh"], ["/api/event/plaza"], ["/api/event/plaza", event("Boat trip")]]) {
    const response = await alice(world.url + path, { ...init, headers: { ...init?.headers, Origin: world.url } });
    assert.equal(response.status, 503);
    assert.equal(response.headers.get("Retry-After"), "1");
    assert.equal(response.headers.get("Content-Type"), "application/json");
    assert.equal(response.headers.get("Access-Control-Allow-Origin"), world.url);
    assert.deepEqual(await response.json(), { error: "Overloaded", code: "overloaded", requestId: response.headers.get("X-Request-Id") });
  }
  await eventually("it says so", () => world.said.stderr.includes("worldevents: POST /api/event/plaza has failed with 503, as --fail says\n"));
  world.kill("SIGINT");
  await world.ended;

  const calm = await start(t, cwd, "--fail", "503:0");
  for (let n = 0; n < 50; n++) assert.equal((await alice(`${calm.url}/api/event/plaza`)).status, 200);
  assert.equal((await (await alice(`${calm.url}/api/event/plaza`)).json()).events.length, 3);
  assert.equal((await alice(`${calm.url}/api/auth/refresh`)).status, 200); // the token was not spent
});

test("--fail fails a share, with other statuses as a proxy in front of the service", async (t) => {
  const { url } = await start(t, folder("share"), "--fail", "502:0.5");
  const alice = await signIn({ url }, "alice");
  const seen = new Set();
  for (let n = 0; n < 200 && seen.size < 2; n++) {
    const response = await alice(`${url}/api/event/plaza`);
    seen.add(`${response.status} ${response.headers.get("Content-Type").split(";")[0]}`);
  }
  assert.deepEqual([...seen].sort(), ["200 application/json", "502 text/html"]);
});

test("a port that is in use is named, and nothing has changed", async (t) => {
  const cwd = folder("port");
  const world = await start(t, cwd);
  await signIn(world, "dora");
  world.kill("SIGINT");
  await world.ended;
  const addresses = ["127.0.0.1", ...Object.values(networkInterfaces()).flat().some(({ address }) => address === "::1") ? ["::1"] : []];
  for (const address of addresses) {
    const other = net.createServer().listen(0, address);
    t.after(() => other.close());
    await once(other, "listening");
    const { port } = other.address();
    const { code, stderr } = await run(cwd, ["--fresh", "--port", port]);
    assert.equal(code, 1);
    assert.equal(stderr, `worldevents: port ${port} is in use: end what listens there, or choose another one with --port\n`);
  }
  const { stdout } = await run(cwd, ["user", "list"]);
  assert.deepEqual(JSON.parse(stdout).map(({ username }) => username), ["alice", "bob", "carol", "dora"]);
});

test("one launcher at a time has a folder, until it ends or is killed", async (t) => {
  const cwd = folder("twice");
  const first = await start(t, cwd);
  const dora = await signIn(first, "dora");
  const second = await run(cwd, ["--fresh", "--port", await freePort()]);
  assert.equal(second.code, 1);
  assert.equal(second.stderr, `worldevents: ${cwd}/.worldevents is in use by the one at ${first.url}: end it, or start this one in another folder\n`);
  assert.equal((await dora(`${first.url}/api/event/plaza`)).status, 200);

  first.killAll();
  await first.ended;
  const running = () => readdirSync(join(cwd, ".worldevents")).filter((name) => name.startsWith("running"));
  const [left] = running();
  const third = await start(t, cwd);
  assert.equal(running().length, 1);
  assert.notEqual(running()[0], left);
  third.kill("SIGINT");
  await third.ended;
});

test("commands of the service run in the folder, and their status is passed back", async (t) => {
  const cwd = folder("commands");
  const without = await run(cwd, ["user", "list"]);
  assert.equal(without.code, 1);
  assert.equal(without.stderr, `worldevents: there is no ${cwd}/.worldevents: start worldevents here first\n`);
  assert.ok(!existsSync(join(cwd, ".worldevents")));
  assert.match((await run(cwd, ["--version"])).stdout, /^worldevents \d/);

  await start(t, cwd);
  assert.equal(JSON.parse((await run(cwd, ["world", "list"])).stdout)[0].world, "plaza");
  const { code, stderr } = await run(cwd, ["user", "show", "nobody"]);
  assert.equal(code, 1);
  assert.match(stderr, /^worldevents: .*no such user\n$/);
});

test("options that mean nothing are refused, by the service those that it judges", async () => {
  const cwd = folder("options");
  for (const [args, says] of [
    [["--port", "0"], "--port must be a whole number from 1 to 65535"],
    [["--latency", "1s"], "--latency must be a whole number from 0 to 60000"],
    [["--fail", "503"], "--fail must be a status of 400 to 599 and a share of 0 to 1, such as 503:0.1"],
    [["--fail", "503:1.1"], "--fail must be a status of 400 to 599 and a share of 0 to 1, such as 503:0.1"],
    [["--fail", "200:1"], "--fail must be a status of 400 to 599 and a share of 0 to 1, such as 503:0.1"],
    [["serve"], "worldevents without a command serves"],
    [["--jwt-ttl", "16m", "--port", String(await freePort())], "JWT_TTL: must be from 1s to 15m"],
  ]) {
    assert.deepEqual(await run(cwd, args), { code: 1, signal: null, stdout: "", stderr: `worldevents: ${says}\n` });
  }
  const { code, stderr } = await run(cwd, ["--frsh"]);
  assert.equal(code, 1);
  assert.match(stderr, /^worldevents: Unknown option '--frsh'/);
});

test("a machine without a program is told so", async () => {
  const more = { NODE_OPTIONS: "--import=data:text/javascript,Object.defineProperty(process,'platform',{value:'win32'})" };
  const { code, stderr } = await run(folder("windows"), [], { more });
  assert.equal(code, 1);
  assert.equal(stderr, `worldevents: there is no program for win32 on ${process.arch}: Linux and macOS have one, on x64 and arm64\n`);
});

test("a package that is missing, or of another version, is named", async () => {
  const alone = await install("alone", files.filter((file) => /^worldevents-\d/.test(file)));
  assert.equal(new Set(alone.asked).size, 4); // those who have not been handed all of them ask for the others
  const cwd = folder("missing");
  const name = `${scopeOf(project)}/${machine}`;
  const missing = await run(cwd, [], { of: alone });
  assert.equal(missing.code, 1);
  assert.equal(missing.stderr, `worldevents: the package ${name} is not installed. It belongs to this machine, and npm leaves it out with --omit=optional\n`);
  mkdirSync(join(alone.folder, "node_modules", name), { recursive: true });
  writeFileSync(join(alone.folder, "node_modules", name, "package.json"), `{"version":"0.9.0"}`);
  const old = await run(cwd, [], { of: alone });
  assert.equal(old.code, 1);
  assert.match(old.stderr, /^worldevents: the package \S+ has version 0\.9\.0, and this one \S+: install both of one version\n$/);
});

test("the README says what --help says", async () => {
  const page = readFileSync(join(import.meta.dirname, "../../gen/launcher/README.md"), "utf8");
  const { stdout } = await run(folder("help"), ["--help"]);
  const options = stdout.match(/^ {2}--[a-z-]+/gm).map((option) => option.trim());
  assert.deepEqual(options, ["--fresh", "--port", "--jwt-ttl", "--latency", "--fail"]);
  for (const option of options) assert.ok(page.includes(`\`${option}`), option);
  assert.doesNotMatch(page, /\]\((?!#|https?:)/); // the package has no other files of the repository
});
