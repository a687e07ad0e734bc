// The programs of docs/native.md, exactly: a session in a file, from its first refresh token on, and what React Native's globals have and lack.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { readme, writeFiles } from "../browser/readme.mjs";
import { eventually, fetchWithCookies, startService } from "../browser/service.mjs";
import { bun, deno, skipWithout } from "./runtimes/installed.mjs";

const exec = promisify(execFile);
const repository = join(import.meta.dirname, "../..");
const { version } = JSON.parse(readFileSync(join(repository, "gen/typescript/package.json")));
const node = [process.execPath];
let service, folder, env;

before(async () => {
  service = await startService();
  folder = await mkdtemp(join(tmpdir(), "worldevents-native-"));
  env = { PATH: process.env.PATH, HOME: process.env.HOME, SERVICE: service.address };
  const { commands: [install], files } = await readme("Node, Bun and Deno", "docs/native.md");
  await writeFile(join(folder, "package.json"), '{ "private": true, "type": "module" }');
  await writeFiles(folder, files);
  await exec("sh", ["-ec", `${install} ${repository}/bin/worldevents-client-${version}.tgz`], { cwd: folder });
});
after(async () => {
  await service?.stop();
  if (folder) await rm(folder, { recursive: true, maxRetries: 5 });
});

/** Runs the bot until it has printed these lines; `then` is called after the second. */
async function bot([program, ...args], lines, more = {}, then = () => {}) {
  const child = spawn(program, [...args, "bot.mjs"], { cwd: folder, env: { ...env, ...more }, stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "exit");
  let said = "";
  child.stdout.on("data", (text) => (said += text));
  try {
    for (const [i, line] of lines.entries()) {
      await eventually(line, () => {
        assert.equal(child.exitCode, null, said);
        return said.split("\n")[i] === line && said.split("\n").length > i + 1;
      });
      if (i === 1) await then();
    }
  } finally {
    child.kill();
    await ended;
  }
}

const file = () => join(folder, "session.json");

/** Lets the JWT of the file expire. */
function expire() {
  const jar = JSON.parse(readFileSync(file()));
  const token = jar.cookies.find(({ key }) => key === "token");
  token.value = service.expired({ token: token.value }).token;
  writeFileSync(file(), JSON.stringify(jar));
}

test("the bot begins with a refresh token, is live, and goes on with the session of its file", async () => {
  const { refreshToken } = await service.issue("alice");
  const bob = fetchWithCookies(await service.issue("bob"));
  await bot(node, ["Signed in as alice", "0 events", "1 events"], { TOKEN: refreshToken }, () => service.create(bob, "plaza"));
  assert.equal(statSync(file()).mode & 0o777, 0o600);
  const first = readFileSync(file(), "utf8");
  assert.ok(!first.includes(refreshToken), "it is spent");
  await bot(node, ["Signed in as alice", "1 events"]);
});

for (const [name, command] of Object.entries({ Node: node, Bun: [bun, "run"], Deno: [deno, "run", "-A"] })) {
  test(`in ${name} the bot refreshes, and keeps what it got`, { skip: skipWithout(command[0]) }, async () => {
    expire();
    const before = await service.refreshes("refreshed");
    const old = readFileSync(file(), "utf8");
    await bot(command, ["Signed in as alice", "1 events"]);
    assert.equal(await service.refreshes("refreshed") - before, 1);
    assert.notEqual(readFileSync(file(), "utf8"), old);
  });
}

test("of many calls at once where the JWT has expired one refreshes, and each succeeds", async () => {
  expire();
  const before = [await service.refreshes("refreshed"), await service.refreshes("refused")];
  await writeFile(join(folder, "many.mjs"), `
    import { listEvents } from "worldevents-client";
    import "./session.mjs";
    const results = await Promise.all(Array.from({ length: 20 }, () => listEvents({ path: { id: "plaza" } })));
    console.log(results.filter(({ data }) => data?.events.length === 1).length);
  `);
  const { stdout } = await exec(process.execPath, ["many.mjs"], { cwd: folder, env });
  assert.equal(stdout, "20\n");
  assert.deepEqual([await service.refreshes("refreshed") - before[0], await service.refreshes("refused") - before[1]], [1, 0]);
});

test("in React Native calls share one refresh, and lists are live", async () => {
  const session = service.expired(await service.issue("carol"));
  await writeFile(join(folder, "app.mjs"), `
    import { CookieJar } from "tough-cookie";
    for (const name of ["navigator", "BroadcastChannel"]) delete globalThis[name];
    globalThis.navigator = { product: "ReactNative" };
    const [baseUrl, cookies] = [process.argv[2], JSON.parse(process.argv[3])];
    const jar = new CookieJar(), paths = [], system = fetch;
    for (const name of ["token", "refreshToken"]) await jar.setCookie(name + "=" + cookies[name] + "; Path=/", baseUrl);
    globalThis.fetch = async (input, init) => {
      const request = new Request(input, init);
      paths.push(new URL(request.url).pathname);
      request.headers.set("Cookie", await jar.getCookieString(request.url));
      const response = await system(request);
      for (const change of response.headers.getSetCookie()) await jar.setCookie(change, request.url);
      return response;
    };

    const { connect, createEvent, listEvents, watchEvents } = await import("worldevents-client");
    connect({ baseUrl });
    const path = { id: "harbour" };
    const results = await Promise.all(Array.from({ length: 20 }, () => listEvents({ path })));
    const asked = paths.filter((path) => path.startsWith("/api/auth/")).length;
    const lists = await new Promise((done) => {
      const lists = [];
      const stop = watchEvents({ path }, { async onList({ events }) {
        lists.push(events.length);
        if (lists.length === 1) return createEvent({ path, body: { name: "Regatta", description: "", scheduledAt: "2030-01-02T03:04:05Z" } });
        stop();
        done(lists);
      } });
    });
    console.log(JSON.stringify({ read: results.filter(({ data }) => data).length, asked, lists }));
  `);
  const { stdout } = await exec(process.execPath, ["app.mjs", service.address, JSON.stringify(session)], { cwd: folder, env });
  assert.deepEqual(JSON.parse(stdout), { read: 20, asked: 1, lists: [0, 1] });
});
