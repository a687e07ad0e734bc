// A page that a server renders with serverClient, and its component goes on with: in plain Node, and with NEXT=1 in the Next.js of
// tests/guards, without its guard, which takes minutes and 400 MB. ROUNDS=40 makes 200 reloads.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFile, cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { build } from "esbuild";
import { cookiesOf, openWindow, startChromium } from "./chromium.mjs";
import { startFront } from "./front.mjs";
import { readme } from "./readme.mjs";
import { eventually, fetchWithCookies, freePort, isServed, startService } from "./service.mjs";

const here = import.meta.dirname;
const client = join(here, "../../gen/typescript/dist");
const next = join(here, "../guards/next");
const rounds = Number(process.env.ROUNDS ?? 3);
let browser;

before(async () => (browser = await startChromium()));
after(() => browser?.close());

/** A page in plain Node at http://localhost:PORT, in front of the service. `rendered` is called before the page is sent. */
async function startPlain(service, port, folder, rendered = () => {}) {
  await copyFile(join(next, "app/events.tsx"), join(folder, "events.tsx"));
  for (const name of ["page.jsx", "browser.jsx"]) await copyFile(join(here, "ssr", name), join(folder, name));
  const bundle = (name, options) => build({
    entryPoints: [join(folder, `${name}.jsx`)], bundle: true, format: "esm", jsx: "automatic", logLevel: "error", nodePaths: [join(here, "node_modules")],
    alias: {
      "worldevents-client/react": join(client, "react.js"), "worldevents-client": join(client, "index.js"),
      react: join(here, "node_modules/react"), "@tanstack/react-query": join(here, "node_modules/@tanstack/react-query"),
    },
    ...options,
  });
  await bundle("browser", { outfile: join(folder, "out/browser.js"), define: { "process.env.NODE_ENV": '"development"' } });
  await bundle("page", {
    outfile: join(folder, "page.mjs"), platform: "node",
    banner: { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' },
  });
  const { render } = await import(join(folder, "page.mjs"));
  return startFront(service.address, {
    port, pages: { "/ssr/": join(folder, "out") }, async render(request) {
      const page = await render(service.address, request.headers.cookie);
      await rendered();
      return page;
    },
  });
}

/** The page in Next.js, built and served as docs/typescript/servers.md says. */
async function startNext(service, port, folder) {
  await cp(next, folder, { recursive: true });
  await rm(join(folder, "proxy.ts"));
  const env = { ...process.env, SERVICE: service.address, PORT: String(port), NEXT_TELEMETRY_DISABLED: "1" };
  for (const command of (await readme("Pages", "docs/typescript/servers.md")).commands) {
    const local = command.replace("../vendor", join(here, "../../bin"));
    if (local !== "npx next start") await promisify(execFile)("sh", ["-c", local], { cwd: folder, env });
  }
  const child = spawn("npx", ["next", "start"], { cwd: folder, env, stdio: "ignore", detached: true });
  await eventually("Next.js serves", () => {
    assert.equal(child.exitCode, null, "Next.js has ended");
    return isServed(`http://localhost:${port}/`);
  });
  return {
    async stop() {
      process.kill(-child.pid);
      await once(child, "exit");
    },
  };
}

test("a page whose session has ended since the server rendered it asks to sign in", async (t) => {
  const port = await freePort();
  const service = await startService({ BASE_URL: `http://localhost:${port}` });
  t.after(service.stop);
  const folder = await mkdtemp(join(tmpdir(), "worldevents-ssr-"));
  t.after(() => rm(folder, { recursive: true, maxRetries: 5 }));
  const session = await service.issue("alice");
  const server = await startPlain(service, port, folder, () => fetchWithCookies(session)(`${service.address}/sign-out`, { method: "POST" }));
  t.after(server.stop);
  const context = await openWindow(browser, { baseURL: `http://localhost:${port}` });
  t.after(() => context.close());
  await context.addCookies(cookiesOf(session, `http://localhost:${port}`));
  const tab = await context.newPage();
  const page = await (await tab.goto("/")).text();
  assert.match(page, /Signed in as (<!-- -->)?alice/);
  await tab.getByRole("link", { name: "Sign in" }).waitFor();
});

for (const [name, start, skip] of [["plain Node", startPlain, false], ["Next.js", startNext, !process.env.NEXT && "takes minutes: NEXT=1"]]) {
  test(`in ${name} the server renders the list, the browser refreshes, and nobody is signed out`, { skip }, async (t) => {
    const port = await freePort();
    const service = await startService({ BASE_URL: `http://localhost:${port}`, SESSIONS_PER_USER: "10" });
    t.after(service.stop);
    const folder = await mkdtemp(join(tmpdir(), "worldevents-ssr-"));
    t.after(() => rm(folder, { recursive: true, maxRetries: 5 }));
    const server = await start(service, port, folder);
    t.after(server.stop);
    const context = await openWindow(browser, { baseURL: `http://localhost:${port}` });
    t.after(() => context.close());

    const bob = fetchWithCookies(await service.issue("bob"));
    await service.create(bob, "plaza", { name: "</script>Rooftop & concert" });
    const session = await service.issue("alice");
    const keep = (session) => context.addCookies(cookiesOf(session, `http://localhost:${port}`));
    const expire = async () => { // The refresh token stays: a tab may be about to replace it.
      const [token] = cookiesOf(service.expired(session), `http://localhost:${port}`);
      await context.addCookies([token]);
    };
    const fetched = async (cookies) => (await fetch(`http://localhost:${port}/`, { headers: { Cookie: cookies } })).text();

    const [alices, bobs, expired, nobodys] = await Promise.all([ // at once: no user sees another's page
      fetched(`token=${session.token}`), fetched(`token=${(await service.issue("bob")).token}`),
      fetched(`token=${service.expired(session).token}; refreshToken=${session.refreshToken}`), fetched(""),
    ]);
    assert.match(alices, /Signed in as (<!-- -->)?alice/);
    assert.match(alices, /Rooftop &amp; concert/);
    assert.match(bobs, /Signed in as (<!-- -->)?bob/);
    for (const shell of [expired, nobodys]) assert.doesNotMatch(shell, /Signed in|Rooftop/);

    await keep(session); // What the server has read the browser does not read again.
    const first = await context.newPage();
    const asked = [];
    first.on("request", (request) => /\/api\//.test(request.url()) && asked.push(request));
    await first.goto("/");
    await eventually("it waits", () => asked.length > 0);
    await service.create(bob, "plaza", { name: "Boat trip" });
    await first.getByRole("button", { name: "Boat trip: bob" }).waitFor();
    await eventually("it waits again", () => asked.length > 1);
    for (const request of asked) {
      assert.match(request.url(), /\/api\/event\/plaza\?wait=/);
      assert.match(request.headers()["if-none-match"], /"/);
    }
    await first.close();
    await context.clearCookies();

    const tabs = await Promise.all(Array.from({ length: 5 }, async () => {
      const tab = await context.newPage();
      tab.errors = [];
      tab.on("pageerror", (error) => tab.errors.push(error.message));
      return tab;
    }));
    await keep(session);
    await Promise.all(tabs.map((tab) => tab.goto("/")));
    const before = await service.refreshes("refreshed");
    for (let round = 1; round <= rounds; round++) {
      await Promise.all(tabs.map((tab) => tab.getByRole("button", { name: "Rooftop & concert: bob" }).waitFor()));
      await expire();
      await Promise.all(tabs.map((tab) => tab.reload()));
      for (const tab of tabs) {
        await tab.getByText(/Signed in as alice|Sign in/).waitFor().catch(() => {});
        assert.match(await tab.locator("body").innerText(), /Signed in as alice/, `round ${round}`);
      }
      assert.equal(await service.refreshes("refreshed") - before, round);
    }
    if (rounds > 3) console.log(`${name}: ${rounds * tabs.length} reloads, nobody signed out`);

    await tabs[0].reload(); // whose JWT is good
    await tabs[0].getByRole("button", { name: "Rooftop" }).click();
    for (const tab of tabs) await tab.getByRole("button", { name: "Rooftop & concert: bob, alice" }).waitFor();
    await tabs[1].reload();
    await tabs[1].getByRole("button", { name: "Rooftop & concert: bob, alice" }).waitFor();

    await context.clearCookies();
    await tabs[0].reload();
    await tabs[0].getByRole("link", { name: "Sign in" }).click();
    await tabs[0].getByLabel("Username").fill("dora");
    await tabs[0].getByRole("button", { name: "Sign in" }).click();
    await tabs[0].getByText("Signed in as dora").waitFor();
    for (const tab of tabs) assert.deepEqual(tab.errors, []); // React reports a page that is not what the server has made
  });
}
