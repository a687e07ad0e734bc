// One session in many tabs, in Chromium: whatever happens at once, one refresh is spent and everybody stays signed in.
import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { cookiesOf, startChromium } from "./chromium.mjs";
import { startFront } from "./front.mjs";
import { fetchWithCookies, startService } from "./service.mjs";

let browser, service, front, context;
let hold = () => {};

before(async () => {
  service = await startService();
  front = await startFront(service.address, { hold: (...call) => hold(...call) });
  browser = await startChromium();
});
after(async () => {
  await browser?.close();
  await front?.stop();
  await service?.stop();
});
beforeEach(async () => (context = await browser.newContext({ baseURL: `http://localhost:${front.port}` })));
afterEach(async () => {
  hold = () => {};
  await context.close();
});

const page = "/page/?world=plaza";
const keep = (session) => context.addCookies(cookiesOf(session, `http://localhost:${front.port}`));
const signedIn = (tab) => tab.getByText("Signed in as alice").waitFor();
const upToDate = (tab) => tab.getByText("Up to date at").waitFor();

/** Loads the tab's list anew, and tells how that ended. */
const reloadList = (tab) => tab.evaluate(async () => {
  const { listEvents } = await import("../client/index.js");
  const { data, error } = await listEvents({ path: { id: "plaza" } });
  return data ? "listed" : error.code;
});

test("ten tabs with one expired JWT: all stay signed in and one refresh is spent, 20 times in a row", async () => {
  const before = await service.refreshes("refused");
  await tenTabs(20);
  assert.equal(await service.refreshes("refused") - before, 0); // they do not even race
});

test("without Web Locks ten tabs race, and still all stay signed in and one refresh is spent", async () => {
  await context.addInitScript(() => delete Navigator.prototype.locks);
  await tenTabs(5);
});

async function tenTabs(rounds) {
  const session = await service.issue("alice");
  await keep(session);
  const tabs = await Promise.all(Array.from({ length: 10 }, () => context.newPage()));
  await Promise.all(tabs.map((tab) => tab.goto(page).then(() => upToDate(tab))));
  const before = await service.refreshes("refreshed");
  for (let round = 1; round <= rounds; round++) {
    await keep({ ...service.expired(session), refreshToken: await cookie("refreshToken") });
    assert.deepEqual(await Promise.all(tabs.map(reloadList)), Array(10).fill("listed"), `round ${round}`);
    assert.equal(await service.refreshes("refreshed") - before, round);
  }
  await Promise.all(tabs.map(signedIn));
}

test("20 reloads in the middle of one slow refresh: still signed in", async () => {
  await keep(service.expired(await service.issue("alice")));
  const before = await service.refreshes("refreshed");
  let arrived, release;
  const first = new Promise((resolve) => (arrived = resolve));
  const released = new Promise((resolve) => (release = resolve));
  hold = (request) => {
    if (!request.url.startsWith("/api/auth/") || hold.used) return;
    hold.used = true;
    arrived();
    return released; // the token is spent, and its cookies are on their way
  };
  const tab = await context.newPage();
  await tab.goto(page, { waitUntil: "commit" });
  await first;
  for (let i = 0; i < 20; i++) await tab.reload();
  assert.equal(await tab.getByText("Signed in as").count(), 0);
  release();
  await signedIn(tab);
  await upToDate(tab);
  assert.equal(await service.refreshes("refreshed") - before, 1);
});

test("effects that run twice and are undone once, as in React's StrictMode, spend one refresh", async () => {
  const session = await service.issue("alice");
  await keep(session);
  const tab = await context.newPage();
  await tab.goto(page);
  await upToDate(tab);
  await keep({ ...service.expired(session), refreshToken: await cookie("refreshToken") });
  const before = await service.refreshes("refreshed");
  const ends = await tab.evaluate(async () => {
    const { getSession, listEvents } = await import("../client/index.js");
    const effect = () => {
      const controller = new AbortController();
      const { signal } = controller;
      const calls = [getSession({ signal }), listEvents({ path: { id: "plaza" }, signal })];
      return { calls, undo: () => controller.abort() };
    };
    const mounted = effect();
    mounted.undo();
    const mountedAgain = effect();
    const ends = await Promise.allSettled([...mounted.calls, ...mountedAgain.calls]);
    return ends.map((end) => (end.status === "rejected" ? end.reason.name : Object.keys(end.value.data)[0]));
  });
  assert.deepEqual(ends, ["AbortError", "AbortError", "authenticated", "events"]);
  assert.equal(await service.refreshes("refreshed") - before, 1);
});

test("calls with headers of their own are not shared, and still one refresh is spent", async () => {
  const session = await service.issue("alice");
  await keep(session);
  const tab = await context.newPage();
  await tab.goto(page);
  await upToDate(tab);
  await keep({ ...service.expired(session), refreshToken: await cookie("refreshToken") });
  const before = await service.refreshes("refreshed");
  const sessions = await tab.evaluate(async () => {
    const { getSession } = await import("../client/index.js");
    const own = { headers: { "If-None-Match": "x" } }; // any that the service lets other origins send, too
    const results = await Promise.all([getSession(own), getSession(), getSession(own), getSession()]);
    return results.map(({ data }) => data?.authenticated);
  });
  assert.deepEqual(sessions, [true, true, true, true]);
  assert.equal(await service.refreshes("refreshed") - before, 1);
});

test("sign-out and sign-in are told to all tabs, and nobody is sent to sign in again after signing out", async () => {
  await keep(await service.issue("alice"));
  const tabs = await Promise.all(Array.from({ length: 3 }, () => context.newPage()));
  for (const tab of tabs) {
    await tab.goto(page);
    await upToDate(tab);
    await tab.evaluate(async () => {
      const { connect, getSession, onSessionChange } = await import("../client/index.js");
      window.told = [];
      connect({ baseUrl: "", onSignInNeeded: () => told.push("sign in") });
      onSessionChange((session) => told.push(session ? session.username : "nobody"));
      await getSession();
    });
  }
  const told = async (...want) => {
    for (const tab of tabs) await tab.waitForFunction((want) => told.join() === want, want.join());
  };
  const call = (tab, name, ...args) => tab.evaluate(
    async ([name, args]) => (await import("../client/index.js"))[name](...args).then((result) => result?.error?.code), [name, args]);
  await told();
  await call(tabs[0], "signOut");
  await told("nobody");
  for (const tab of tabs) assert.equal(await call(tab, "listEvents", { path: { id: "plaza" } }), "no_token");
  await told("nobody");

  const bob = await service.issue("bob");
  await keep(bob);
  await call(tabs[1], "getSession");
  await told("nobody", "bob");
  for (const tab of tabs) assert.equal(await call(tab, "listEvents", { path: { id: "plaza" } }), undefined);

  // Ended elsewhere: the tab that finds out tells the others.
  await fetchWithCookies(bob)(`${service.address}/sign-out`, { method: "POST" });
  assert.equal(await call(tabs[2], "listEvents", { path: { id: "plaza" } }), "invalid_token");
  for (const [i, tab] of tabs.entries()) {
    await tab.waitForFunction((want) => told.join() === want, `nobody,bob,nobody${i === 2 ? ",sign in" : ""}`);
  }
});

test("the page lists, joins and leaves, shows others' names live, and says what went wrong", async () => {
  const bob = fetchWithCookies(await service.issue("bob"));
  const created = await bob(`${service.address}/api/event/plaza`, {
    method: "POST", headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ name: "Rooftop concert", description: "Doors open\nat eight.", scheduledAt: "2030-01-02T03:04:05Z" }),
  });
  const id = created.headers.get("Event-Id");

  const tab = await context.newPage();
  await tab.goto("/page/?world=plaza");
  await tab.getByRole("link", { name: "Sign in" }).click();
  await tab.getByLabel("Username").fill("alice");
  await tab.getByRole("button", { name: "Sign in" }).click();
  await signedIn(tab);
  const names = async (...want) => {
    await tab.waitForFunction(
      ([id, want]) => [...document.getElementById(id)?.querySelectorAll("li") ?? []].map((li) => li.textContent).join() === want,
      [id, want.join()]);
  };
  await names("bob");
  await tab.getByRole("button", { name: "Join" }).click();
  await names("bob", "alice");
  if (process.env.SCREENSHOTS) await tab.screenshot({ path: `${process.env.SCREENSHOTS}/page.png` });
  await bob(`${service.address}/api/event/${id}`, { method: "DELETE" });
  await names("alice");

  const before = await service.refreshes("refreshed");
  await keep({ token: service.expired({ token: await cookie("token") }).token, refreshToken: await cookie("refreshToken") });
  await tab.getByRole("button", { name: "Leave" }).click();
  await names();
  assert.equal(await service.refreshes("refreshed") - before, 1);

  await tab.getByLabel("Name").fill(" ");
  await tab.getByLabel("When").fill("2030-05-06T07:08");
  await tab.getByRole("button", { name: "Create" }).click();
  await tab.getByRole("alert").getByText("must be 1 to 200 characters").waitFor();
  if (process.env.SCREENSHOTS) await tab.screenshot({ path: `${process.env.SCREENSHOTS}/page-fault.png` });

  await tab.getByRole("button", { name: "Sign out" }).click();
  await tab.getByText("Not signed in").waitFor();
  assert.equal(await cookie("token"), undefined);
});

async function cookie(name) {
  return (await context.cookies()).find((cookie) => cookie.name === name)?.value;
}
