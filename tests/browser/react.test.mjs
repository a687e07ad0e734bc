// worldevents-client/react in Chromium: an app in StrictMode, against the real service.
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, copyFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { build } from "esbuild";
import { cookiesOf, openWindow, startChromium } from "./chromium.mjs";
import { startFront } from "./front.mjs";
import { eventually, fetchWithCookies, startService } from "./service.mjs";

const here = import.meta.dirname;
const client = join(here, "../../gen/typescript/dist");
let browser, service, front, context, folder, bob, world, worlds = 0;
let hold = () => {};
let away = () => false; // whether a request gets no further than the front
let asked; // for lists: whether the call waits, and from which list on
let open; // the calls for lists that are under way: their responses

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "worldevents-react-"));
  await copyFile(join(here, "react/index.html"), join(folder, "index.html"));
  await build({
    entryPoints: [join(here, "react/app.jsx")], outfile: join(folder, "app.js"), bundle: true, format: "esm", jsx: "automatic",
    define: { "process.env.NODE_ENV": '"development"' }, logLevel: "warning",
    alias: { // one React for the client and the app, as in an installed package
      "worldevents-client/react": join(client, "react.js"), "worldevents-client": join(client, "index.js"),
      react: join(here, "node_modules/react"), "@tanstack/react-query": join(here, "node_modules/@tanstack/react-query"),
    },
  });
  service = await startService({ SESSIONS_PER_USER: "100" });
  front = await startFront(service.address, { pages: { "/react/": folder }, hold: (...call) => hold(...call), arrive: (...call) => arrive(...call) });
  browser = await startChromium();
  bob = fetchWithCookies(await service.issue("bob"));
});
after(async () => {
  await browser?.close();
  await front?.stop();
  await service?.stop();
  if (folder) await rm(folder, { recursive: true });
});
beforeEach(async () => {
  asked = [];
  open = new Set();
  world = `world-${++worlds}`;
  context = await openWindow(browser, { baseURL: `http://localhost:${front.port}` });
});
afterEach(async () => {
  hold = () => {};
  away = () => false;
  await context.close();
});

const keep = (session) => context.addCookies(cookiesOf(session, `http://localhost:${front.port}`));

async function openTab(query = "", prepare = () => {}) {
  const tab = await context.newPage();
  await prepare(tab);
  tab.errors = [];
  tab.on("pageerror", (error) => tab.errors.push(error.message));
  tab.on("console", (message) => message.text().startsWith("Warning:") && tab.errors.push(message.text()));
  await tab.goto(`/react/?world=${world}${query}`);
  return tab;
}

async function arrive(request, response) {
  const { method, url, headers } = request;
  if (method === "GET" && url.startsWith("/api/event/")) {
    asked.push(url.includes("wait=") ? `waits from ${headers["if-none-match"]}` : "reads");
    open.add(response.on("close", () => open.delete(response)));
  }
  if (await away(request)) response.writeHead(502).end();
}

const create = (name) => service.create(bob, world, { name });

const names = (tab, id, want) => tab.waitForFunction(
  ([id, want]) => document.querySelector(`[id="${id}"] span`)?.textContent === want, [id, want]);

test("an app lists live in two tabs, creates with messages for fields, joins and leaves, signs in and out", async () => {
  const id = await create("Rooftop concert");
  const [tab, other] = [await openTab(), await openTab()];
  await tab.getByRole("link", { name: "Sign in" }).click();
  await tab.getByLabel("Username").fill("alice");
  await tab.getByRole("button", { name: "Sign in" }).click();
  for (const each of [tab, other]) await names(each, id, "bob"); // the other tab hears of it

  await tab.getByRole("button", { name: "Join" }).click();
  for (const each of [tab, other]) await names(each, id, "bob, alice");
  await bob(`${service.address}/api/event/${id}`, { method: "DELETE" });
  for (const each of [tab, other]) await names(each, id, "alice");

  const before = await service.refreshes("refreshed");
  const cookies = Object.fromEntries((await context.cookies()).map(({ name, value }) => [name, value]));
  await keep(service.expired(cookies)); // in the middle of it all
  await other.getByRole("button", { name: "Leave" }).click();
  for (const each of [tab, other]) await names(each, id, "");
  assert.equal(await service.refreshes("refreshed") - before, 1);

  await tab.getByRole("button", { name: "Create" }).click();
  await tab.getByText("must be 1 to 200 characters").waitFor();
  await tab.getByLabel("Name").fill("Boat trip");
  await tab.getByRole("button", { name: "Create" }).click();
  await tab.getByText("Created").waitFor();
  for (const each of [tab, other]) await each.getByRole("heading", { name: "Boat trip" }).waitFor();

  await other.getByRole("button", { name: "Sign out" }).click();
  for (const each of [tab, other]) {
    await each.getByRole("link", { name: "Sign in" }).waitFor();
    assert.equal(await each.getByRole("heading").count(), 0);
    assert.deepEqual(each.errors, []);
  }
});

test("after a write a live list is not read beside what its watch brings", async () => {
  await keep(await service.issue("alice"));
  const id = await create("Rooftop concert");
  const tab = await openTab();
  await names(tab, id, "bob");
  await eventually("it waits", () => asked.at(-1)?.startsWith("waits"));
  asked = [];
  await tab.getByRole("button", { name: "Join" }).click();
  await names(tab, id, "bob, alice");
  await tab.getByLabel("Name").fill("Boat trip");
  await tab.getByRole("button", { name: "Create" }).click();
  await tab.getByText("Created").waitFor();
  await tab.getByRole("heading", { name: "Boat trip" }).waitFor();
  await bob(`${service.address}/api/event/${id}`, { method: "DELETE" }); // what was asked before has been asked by then
  await names(tab, id, "alice");
  assert.deepEqual(asked.filter((call) => call === "reads"), []);
  assert.deepEqual(tab.errors, []);
});

test("a join shows before the service has responded, and no longer when it fails", async () => {
  await keep(await service.issue("alice"));
  const id = await create("Rooftop concert");
  const tab = await openTab();
  await names(tab, id, "bob");
  let release;
  const released = new Promise((resolve) => (release = resolve));
  hold = async (request, answer) => {
    if (request.method !== "POST" || !request.url.startsWith("/api/event/join/")) return;
    await released;
    answer.statusCode = 500;
  };
  await tab.getByRole("button", { name: "Join" }).click();
  await names(tab, id, "bob, alice");
  await fetchWithCookies(await service.issue("alice"))(`${service.address}/api/event/${id}`, { method: "DELETE" });
  release();
  await names(tab, id, "bob");
  await tab.getByRole("alert").getByText(/./).waitFor();
});

test("what comes while a join is under way is shown with it, and a join that fails although it has happened stays, as the watch brings it", async () => {
  await keep(await service.issue("alice"));
  const id = await create("Rooftop concert");
  const tab = await openTab();
  await names(tab, id, "bob");
  await eventually("it waits", () => asked.at(-1)?.startsWith("waits"));
  let release;
  const released = new Promise((resolve) => (release = resolve));
  hold = async (request, answer) => {
    if (request.method !== "POST" || !request.url.startsWith("/api/event/join/")) return;
    await released;
    answer.statusCode = 502;
  };
  asked = [];
  await tab.getByRole("button", { name: "Join" }).click();
  await names(tab, id, "bob, alice");
  await bob(`${service.address}/api/event/${id}`, { method: "DELETE" });
  await names(tab, id, "alice");
  release();
  await tab.getByRole("alert").getByText(/./).waitFor();
  await names(tab, id, "alice");
  await bob(`${service.address}/api/event/join/${id}`, { method: "POST" });
  await names(tab, id, "alice, bob");
  assert.ok(!asked.includes("reads"));
});

test("after an outage in which a join and a leave have failed all tabs show what the service has", async () => {
  await keep(await service.issue("alice"));
  const id = await create("Rooftop concert");
  const tabs = [await openTab(), await openTab()];
  for (const tab of tabs) await names(tab, id, "bob");
  await eventually("one of them waits", () => open.size === 1 && asked.some((call) => call.startsWith("waits")));
  let clicked;
  const both = new Promise((resolve) => (clicked = resolve));
  away = async ({ method, url }) => {
    if (method !== "GET") await both;
    return url.startsWith("/api/event/");
  };
  for (const response of open) response.destroy();
  asked = [];
  await tabs[0].getByRole("button", { name: "Join" }).click();
  await names(tabs[0], id, "bob, alice");
  await tabs[0].getByRole("button", { name: "Leave" }).click();
  clicked();
  await tabs[0].getByRole("alert").getByText(/502/).waitFor();
  for (const tab of tabs) await tab.getByRole("status").getByText("offline").waitFor();
  await new Promise((next) => setTimeout(next, 8_000)); // what is read again after a failure has been tried three times by then
  away = () => false;
  for (const tab of tabs) await tab.evaluate(() => dispatchEvent(new Event("online"))); // which the watch does not wait to try again for
  for (const tab of tabs) {
    await tab.getByRole("status").getByText("offline").waitFor({ state: "hidden" });
    await names(tab, id, "bob");
  }
  await create("Boat trip"); // what is shown goes on from there
  for (const tab of tabs) {
    await tab.getByRole("heading", { name: "Boat trip" }).waitFor();
    await names(tab, id, "bob");
    assert.deepEqual(tab.errors, []);
  }
});

test("signing out in the middle of a join shows nothing of it, nor when the response comes at last", async () => {
  await keep(await service.issue("alice"));
  const id = await create("Rooftop concert");
  const [tab, other] = [await openTab(), await openTab()];
  for (const each of [tab, other]) await names(each, id, "bob");
  let release;
  const released = new Promise((resolve) => (release = resolve));
  let held = 0;
  hold = (request) => {
    if (request.method === "POST" && request.url.startsWith("/api/event/join/")) return held++, released;
  };
  await tab.getByRole("button", { name: "Join" }).click();
  await names(tab, id, "bob, alice");
  await tab.getByRole("button", { name: "Sign out" }).click();
  for (const each of [tab, other]) await each.getByRole("link", { name: "Sign in" }).waitFor();
  assert.equal(held, 1);
  const joined = tab.waitForResponse((response) => response.url().includes("/api/event/join/"));
  release();
  await (await joined).finished();
  await tab.evaluate(() => fetch("/api/auth/session")); // whatever the response has set off is over
  for (const each of [tab, other]) {
    assert.equal(await each.getByRole("heading").count(), 0);
    assert.equal(await each.getByRole("link", { name: "Sign in" }).count(), 1);
    assert.deepEqual(each.errors, []);
  }
  // The next user sees what has been done, and nothing that the last one was shown.
  await keep(await service.issue("carol"));
  await tab.reload();
  await names(tab, id, "bob, alice");
  await other.getByRole("button", { name: "Join" }).click();
  for (const each of [tab, other]) await names(each, id, "bob, alice, carol");
});

test("a list without useSession follows the session, too, and says how it is", async () => {
  await keep(await service.issue("alice"));
  const id = await create("Rooftop concert");
  const [tab, other] = [await openTab("&alone"), await openTab()];
  await tab.locator(`[id="${id}"]`).waitFor();
  await tab.getByRole("status").getByText("live").waitFor();
  hold = (request, answer) => {
    if (request.url.startsWith("/api/event/")) answer.statusCode = 502;
  };
  await create("Boat trip"); // ends the call that waits
  await tab.getByRole("status").getByText("offline").waitFor();
  hold = () => {};
  await tab.getByRole("heading", { name: "Boat trip" }).waitFor();
  await tab.getByRole("status").getByText("live").waitFor();
  await other.getByRole("button", { name: "Sign out" }).click();
  await tab.getByRole("heading").first().waitFor({ state: "detached" });
  await tab.getByRole("status").getByText("ended").waitFor();
  assert.deepEqual(tab.errors, []);
});

test("a page reads a list once, and then waits for what changes", async () => {
  await keep(await service.issue("alice"));
  await create("Rooftop concert");
  let etag;
  hold = ({ method, url }, { headers }) => {
    if (method === "GET" && url.startsWith("/api/event/")) etag ??= headers.etag;
  };
  const tab = await openTab("&alone");
  await tab.getByRole("status").getByText("live").waitFor();
  await eventually("it waits", () => asked.length > 1);
  await create("Boat trip");
  await tab.getByRole("heading", { name: "Boat trip" }).waitFor();
  await eventually("it waits again", () => asked.length > 2);
  assert.deepEqual(asked.slice(0, 2), ["reads", `waits from ${etag}`]);
  const other = await openTab("&alone"); // which the first one tells
  await other.getByRole("status").getByText("live").waitFor();
  await create("Picnic");
  for (const each of [tab, other]) await each.getByRole("heading", { name: "Picnic" }).waitFor();
  await eventually("it waits once more", () => asked.length > 4);
  assert.deepEqual(asked.map((call) => call.split(" ")[0]), ["reads", "waits", "waits", "reads", "waits"]);
  for (const each of [tab, other]) assert.deepEqual(each.errors, []);
});

test("a list that cannot be read is offline, and live once it can", async () => {
  await keep(await service.issue("alice"));
  await create("Rooftop concert");
  hold = (request, answer) => {
    if (request.url.startsWith("/api/event/")) answer.statusCode = 502;
  };
  const tab = await openTab("&alone");
  await tab.getByRole("status").getByText("offline").waitFor();
  hold = () => {};
  await tab.getByRole("heading", { name: "Rooftop concert" }).waitFor();
  await tab.getByRole("status").getByText("live").waitFor();
  assert.deepEqual(tab.errors, []);
});

test("a page that is opened while the service is away says so, and shows the list once it is back", async () => {
  await keep(await service.issue("alice"));
  const id = await create("Rooftop concert");
  let sessions = 0;
  away = ({ url }) => url.startsWith("/api/") && (sessions += url === "/api/auth/session");
  const prepare = (tab) => tab.clock.install();
  const [alone, tab] = [await openTab("&alone", prepare), await openTab("", prepare)];
  await alone.getByRole("status").getByText("offline").waitFor();
  await tab.getByText("A response with the status 502 is not the service's").waitFor();
  for (const each of [alone, tab]) {
    const before = sessions;
    await eventually("it asks on", async () => {
      await each.clock.runFor(1_000);
      return sessions > before + 4;
    });
  }
  away = () => false;
  for (const each of [alone, tab]) {
    await each.clock.runFor(30_000);
    await each.locator(`[id="${id}"]`).waitFor();
  }
  await alone.getByRole("status").getByText("live").waitFor();
  await create("Boat trip");
  for (const each of [alone, tab]) {
    await each.getByRole("heading", { name: "Boat trip" }).waitFor();
    assert.deepEqual(each.errors, []);
  }
});

test("in pages a join shows before the service has responded, and stays", async () => {
  await keep(await service.issue("alice"));
  const id = await create("Rooftop concert");
  const tab = await openTab("&pages");
  await names(tab, id, "bob");
  let release;
  const released = new Promise((resolve) => (release = resolve));
  hold = ({ method }) => method === "POST" && released;
  await tab.evaluate((id) => {
    window.shown = [];
    const look = () => shown.push(document.querySelector(`[id="${id}"] span`)?.textContent);
    new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
  }, id);
  asked = [];
  await tab.getByRole("button", { name: "Join" }).click();
  await names(tab, id, "bob, alice");
  assert.deepEqual(asked, []);
  release();
  await eventually("the page is read again", () => asked.length === 1 && !open.size);
  await tab.evaluate(() => fetch("/api/auth/session")); // whatever the list has set off is over
  assert.deepEqual([...new Set(await tab.evaluate(() => shown))], ["bob, alice"]);
  await tab.reload();
  await names(tab, id, "bob, alice");
  assert.deepEqual(tab.errors, []);
});

test("pages are read as Link says", async () => {
  await keep(await service.issue("alice"));
  for (let i = 1; i <= 5; i++) await create(`Event ${i}`);
  const tab = await openTab("&pages");
  const count = (want) => tab.waitForFunction((want) => document.querySelectorAll("article").length === want, want);
  await count(2);
  await tab.getByRole("button", { name: "More" }).click();
  await count(4);
  await tab.getByRole("button", { name: "More" }).click();
  await count(5);
  await tab.getByRole("button", { name: "More" }).waitFor({ state: "detached" });
});

test("the app needs at most 20 lines of glue", async () => {
  const lines = (await readFile(join(here, "react/app.jsx"), "utf8")).split("\n");
  const glue = lines.filter((line) => line.endsWith("// glue")).length;
  assert.ok(glue > 0 && glue <= 20, `${glue} lines`);
});
