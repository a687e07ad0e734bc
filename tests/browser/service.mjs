// Starts the real binary for a test, on free ports and with a database of its own.
import assert from "node:assert/strict";
import { spawn, execFile } from "node:child_process";
import { createHmac, randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const binary = fileURLToPath(new URL("../../bin/worldevents", import.meta.url));

/** How long a test waits for anything, in milliseconds: others may use the machine. */
export const patience = 120_000;

/** Waits until `holds`, which may be asynchronous. */
export async function eventually(what, holds) {
  for (const until = Date.now() + patience; !await holds(); await new Promise((next) => setTimeout(next, 20))) {
    assert.ok(Date.now() < until, `not so: ${what}`);
  }
}

/** A port that nobody listens on, below those that the system gives to outgoing connections. */
export async function freePort() {
  for (;;) {
    const port = 10_000 + Math.floor(Math.random() * 20_000);
    const server = net.createServer().listen(port, "127.0.0.1");
    const free = await once(server, "listening").then(() => true, () => false);
    if (!free) continue;
    server.close();
    await once(server, "close");
    return port;
  }
}

/**
 * Starts the service; `env` overrides its settings. Stop it with `stop()`.
 */
export async function startService(env = {}) {
  if (!existsSync(binary)) throw new Error("bin/worldevents is missing: run make build");
  const folder = await mkdtemp(join(tmpdir(), "worldevents-"));
  const [port, adminPort] = [await freePort(), await freePort()];
  const address = `http://127.0.0.1:${port}`;
  const database = join(folder, "test.db");
  const admin = `http://127.0.0.1:${adminPort}`;
  const secret = randomBytes(32).toString("hex");
  const settings = {
    PATH: process.env.PATH,
    APP_ENV: "development",
    DEVELOPMENT_PUBLIC: "true", // hosts such as api.one.test
    LOG_LEVEL: "error",
    LISTEN_ADDR: `127.0.0.1:${port}`,
    ADMIN_ADDR: `127.0.0.1:${adminPort}`,
    BASE_URL: address,
    DATABASE_URL: `sqlite:${database}`,
    JWT_SECRET: secret,
    WRITE_RATE: "0", // one user writes for all
    ...env,
  };
  const child = spawn(binary, ["serve"], { cwd: folder, env: settings, stdio: ["ignore", "inherit", "inherit"] });
  const ended = once(child, "exit");

  const stop = async () => {
    child.kill();
    await ended;
    await rm(folder, { recursive: true });
  };
  const run = async (...args) => {
    const { stdout } = await promisify(execFile)(binary, args, { cwd: folder, env: settings });
    return stdout && JSON.parse(stdout);
  };
  await eventually("the service is ready", () => {
    assert.equal(child.exitCode, null, "the service ended at once");
    return isServed(`${admin}/readyz`);
  });

  const expiresIn = (session, seconds) => ({
    ...session,
    token: sign({ ...claimsOf(session.token), exp: Math.floor(Date.now() / 1000) + seconds }, secret),
  });

  return {
    address,
    port,
    /** The file of the database. */
    database,
    stop,
    /** Adds a user, which production asks for before a session can be issued. */
    addUser: (name) => run("user", "add", name),
    /** Removes an event. */
    remove: (id) => run("event", "remove", id),
    /** Fills the database as `make run` does. */
    demo: () => run("demo"),
    /** Creates an event in a world as the user of `call`, a fetch, and returns its id. */
    async create(call, world, event = {}) {
      const response = await call(`${address}/api/event/${world}`, {
        method: "POST", headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ name: "Rooftop concert", description: "", scheduledAt: "2030-01-02T03:04:05Z", ...event }),
      });
      assert.equal(response.status, 200);
      return response.headers.get("Event-Id");
    },
    /** Signs a user in. */
    issue: (name) => run("session", "issue", "--json", name),
    /** The same session with a JWT that has run out of time. */
    expired: (session) => expiresIn(session, -60),
    /** The same session with a JWT that expires in so many seconds. */
    expiresIn,
    /** How many uses of a refresh token ended so: refreshed, refused, reused or failed. */
    refreshes: async (outcome) => {
      const metrics = await (await fetch(`${admin}/metrics`)).text();
      return Number(metrics.match(new RegExp(`^worldevents_refreshes_total\\{outcome="${outcome}"\\} (\\d+)$`, "m"))[1]);
    },
  };
}

/** Starts a system that owns the worlds, for WORLD_ACCESS_URL: `access` says whether a user may do something in a world. */
export async function startOwner(access) {
  const server = createServer((request, response) => {
    const { searchParams } = new URL(request.url, "http://owner");
    const may = access(...["username", "world", "action"].map((name) => searchParams.get(name)));
    response.writeHead(may ? 204 : 403, { "Cache-Control": "no-store" }).end();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return { url: `http://127.0.0.1:${server.address().port}/`, stop: () => server.close() };
}

/** Whether something at `url` responds with success. */
export const isServed = (url) => fetch(url).then((response) => response.ok, () => false);

const claimsOf = (token) => JSON.parse(Buffer.from(token.split(".")[1], "base64url"));

function sign(claims, secret) {
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const text = `${part({ alg: "HS256", typ: "JWT" })}.${part(claims)}`;
  return `${text}.${createHmac("sha256", secret).update(text).digest("base64url")}`;
}

/** A fetch with the cookies of a browser: those of `session`, then whatever the service sets. */
export function fetchWithCookies(session = {}) {
  const { fetch } = globalThis;
  const jar = new Map(["token", "refreshToken"].filter((name) => session[name]).map((name) => [name, session[name]]));
  return async (input, init) => {
    const request = new Request(input, init);
    // Node's Request does not carry the credentials mode of a browser, so look at what the caller gave as well.
    if ((init?.credentials ?? request.credentials) !== "omit") {
      request.headers.set("Cookie", [...jar].map(([name, value]) => `${name}=${value}`).join("; "));
    }
    const response = await fetch(request);
    for (const cookie of response.headers.getSetCookie()) {
      const [, name, value] = cookie.match(/^([^=]+)=([^;]*)/);
      if (value) jar.set(name, value);
      else jar.delete(name);
    }
    return response;
  };
}
