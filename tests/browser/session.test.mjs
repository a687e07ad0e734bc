// One session in many tabs, in Chromium and Firefox: whatever happens at once, one refresh is spent and everybody stays signed in.
// What does not depend on the browser is tested in Chromium alone.
// ROUNDS=20 repeats what races so often.
import assert from "node:assert/strict";
import { after, afterEach, before, describe, test } from "node:test";
import { becomes, engines, openProfile, press, startEngine } from "./engines.mjs";
import { startFront } from "./front.mjs";
import { fetchWithCookies, startService } from "./service.mjs";

const rounds = Number(process.env.ROUNDS ?? 3);
const page = "/page/?world=plaza";
let service, front, url, profile, keep, cookie;
let hold = () => {};
let arrive = () => {};

before(async () => {
  service = await startService();
  front = await startFront(service.address, { hold: (...call) => hold(...call), arrive: (...call) => arrive(...call) });
  url = `http://localhost:${front.port}`;
});
after(async () => {
  await front?.stop();
  await service?.stop();
});

const says = (tab, id, text) => becomes(
  tab, (id, text) => document.getElementById(id)?.textContent.startsWith(text), id, text);
const signedIn = (tab) => says(tab, "who", "Signed in as alice");
const upToDate = (tab) => says(tab, "status", "Up to date at");
const openTabs = async (count) => {
  const tabs = await profile.openTabs(Array(count).fill(page));
  await Promise.all(tabs.map(upToDate));
  return tabs;
};

/** Loads the tab's list anew, and tells how that ended. */
const reloadList = (tab) => tab.evaluate(async () => {
  const { listEvents } = await import(`${location.origin}/client/index.js`);
  const { data, error } = await listEvents({ path: { id: "plaza" } });
  return data ? "listed" : error.code;
});

for (const { name, skip } of engines) {
  describe(name, { skip }, () => {
    let browser;
    before(async () => {
      browser = await startEngine(name);
      profile = await openProfile(browser, undefined, url);
      ({ keep, cookie } = profile);
    });
    after(() => browser?.close());
    afterEach(async () => {
      hold = arrive = () => {};
      await profile.clear();
    });
    const inChromium = name === "chrome" ? test : () => {};

    const many = name === "chrome" ? 10 : 5; // windows of Firefox take long to open
    test(`${many} tabs with one expired JWT: all stay signed in and one refresh is spent, again and again, without Web Locks too`, async () => {
      const session = await service.issue("alice");
      await keep(session);
      const tabs = await openTabs(many);
      const refresh = async (what) => {
        const before = await service.refreshes("refreshed");
        for (let round = 1; round <= rounds; round++) {
          await keep({ ...service.expired(session), refreshToken: await cookie("refreshToken") });
          assert.deepEqual(await Promise.all(tabs.map(reloadList)), Array(many).fill("listed"), `${what}, round ${round}`);
          assert.equal(await service.refreshes("refreshed") - before, round);
        }
      };
      const before = await service.refreshes("refused");
      await refresh("with locks");
      assert.equal(await service.refreshes("refused") - before, 0); // they do not even race
      for (const tab of tabs) await tab.evaluate(() => void delete Navigator.prototype.locks);
      await refresh("without locks");
      await Promise.all(tabs.map(signedIn));
    });

    test("reloads in the middle of one slow refresh: still signed in", async () => {
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
      const [tab] = await profile.openTabs([page]);
      await first;
      for (let i = 0; i < 6; i++) await tab.reload();
      assert.equal(await tab.$eval("#who", (who) => who.textContent), "…");
      release();
      await signedIn(tab);
      await upToDate(tab);
      assert.equal(await service.refreshes("refreshed") - before, 1);
    });

    test("a refresh that is never answered rejects the calls of all tabs after 20 seconds, the next ones succeed, and nobody has to sign in", async () => {
      const session = await service.issue("alice");
      await keep(session);
      const tabs = await openTabs(2);
      for (const tab of tabs) {
        await tab.evaluate(async () => {
          const { connect } = await import(`${location.origin}/client/index.js`);
          window.told = [];
          connect({ baseUrl: "", onSignInNeeded: () => told.push("sign in") });
        });
      }
      await keep({ ...service.expired(session), refreshToken: await cookie("refreshToken") });
      const before = await service.refreshes("refreshed");
      let arrived;
      const first = new Promise((resolve) => (arrived = resolve));
      arrive = ({ url }) => {
        if (url !== "/api/auth/session" || arrive.used) return;
        arrive.used = true;
        arrived();
        return new Promise(() => {}); // it gets no further
      };
      const call = (tab) => tab.evaluate(async () => {
        const { listEvents } = await import(`${location.origin}/client/index.js`);
        const began = performance.now();
        const end = await listEvents({ path: { id: "plaza" } }).then(({ data }) => data && "listed", (error) => error.name);
        return { end, seconds: (performance.now() - began) / 1000 };
      });
      const hanging = call(tabs[0]);
      await first;
      const behind = call(tabs[1]); // which waits for the first, and may have a moment left when that gives up
      for (const { end, seconds } of await Promise.all([hanging, behind])) {
        assert.match(end, /^(TimeoutError|listed)$/);
        assert.ok(seconds > 15 && seconds < 40, `${seconds} seconds`);
      }
      assert.equal((await hanging).end, "TimeoutError");
      for (const tab of tabs) assert.equal((await call(tab)).end, "listed");
      assert.equal(await service.refreshes("refreshed") - before, 1);
      for (const tab of tabs) assert.deepEqual(await tab.evaluate(() => told), []);
    });

    inChromium("effects that run twice and are undone once, as in React's StrictMode, spend one refresh", async () => {
      const session = await service.issue("alice");
      await keep(session);
      const [tab] = await openTabs(1);
      await keep({ ...service.expired(session), refreshToken: await cookie("refreshToken") });
      const before = await service.refreshes("refreshed");
      const ends = await tab.evaluate(async () => {
        const { getSession, listEvents } = await import(`${location.origin}/client/index.js`);
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

    inChromium("calls with headers of their own are not shared, and still one refresh is spent", async () => {
      const session = await service.issue("alice");
      await keep(session);
      const [tab] = await openTabs(1);
      await keep({ ...service.expired(session), refreshToken: await cookie("refreshToken") });
      const before = await service.refreshes("refreshed");
      const sessions = await tab.evaluate(async () => {
        const { getSession } = await import(`${location.origin}/client/index.js`);
        const own = { headers: { "If-None-Match": "x" } }; // any that the service lets other origins send, too
        const results = await Promise.all([getSession(own), getSession(), getSession(own), getSession()]);
        return results.map(({ data }) => data?.authenticated);
      });
      assert.deepEqual(sessions, [true, true, true, true]);
      assert.equal(await service.refreshes("refreshed") - before, 1);
    });

    test("sign-out and sign-in are told to all tabs, and nobody is sent to sign in again after signing out", async () => {
      await keep(await service.issue("alice"));
      const tabs = await openTabs(3);
      for (const tab of tabs) {
        await tab.evaluate(async () => {
          const { connect, getSession, onSessionChange } = await import(`${location.origin}/client/index.js`);
          window.told = [];
          connect({ baseUrl: "", onSignInNeeded: () => told.push("sign in") });
          onSessionChange((session) => told.push(session ? session.username : "nobody"));
          await getSession();
        });
      }
      const told = async (...want) => {
        for (const tab of tabs) await becomes(tab, (want) => told.join() === want, want.join());
      };
      const call = (tab, name, ...args) => tab.evaluate(
        async (name, args) => (await import(`${location.origin}/client/index.js`))[name](...args).then((result) => result?.error?.code), name, args);
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
        await becomes(tab, (want) => told.join() === want, `nobody,bob,nobody${i === 2 ? ",sign in" : ""}`);
      }
    });

    test("while one tab signs out, a call of another that the service refuses already asks nobody to sign in", async () => {
      await keep(await service.issue("alice"));
      const tabs = await openTabs(2);
      for (const tab of tabs) {
        await tab.evaluate(async () => {
          const { connect, getSession, onSessionChange } = await import(`${location.origin}/client/index.js`);
          window.told = [];
          connect({ baseUrl: "", onSignInNeeded: () => told.push("sign in") });
          onSessionChange((session) => told.push(session ? session.username : "nobody"));
          await getSession();
        });
      }
      let arrived, release;
      const revoked = new Promise((resolve) => (arrived = resolve));
      const released = new Promise((resolve) => (release = resolve));
      hold = (request) => {
        if (request.url !== "/sign-out") return;
        arrived();
        return released; // the session is revoked, and its cookies are still there
      };
      const left = tabs[0].evaluate(async () => (await import(`${location.origin}/client/index.js`)).signOut());
      await revoked;
      assert.equal(await reloadList(tabs[1]), "invalid_token");
      release();
      await left;
      for (const tab of tabs) await becomes(tab, () => told.includes("nobody"));
      for (const tab of tabs) assert.deepEqual(await tab.evaluate(() => told), ["nobody"]);
    });

    test("the page lists, joins and leaves, shows others' names live, and says what went wrong", async () => {
      const bob = fetchWithCookies(await service.issue("bob"));
      const id = await service.create(bob, "plaza", { description: "Doors open\nat eight." });

      const [tab] = await profile.openTabs([page]);
      await becomes(tab, () => document.querySelector("#sign-in:not([hidden])") !== null);
      await Promise.all([tab.waitForNavigation(), tab.click("#sign-in")]);
      await tab.type("#username", "alice");
      await Promise.all([tab.waitForNavigation(), tab.click("form .primary")]);
      await signedIn(tab);
      const names = (...want) => becomes(
        tab, (id, want) => [...document.getElementById(id)?.querySelectorAll("li") ?? []].map((li) => li.textContent).join() === want,
        id, want.join());
      const shoot = (what) => process.env.SCREENSHOTS && tab.screenshot({ path: `${process.env.SCREENSHOTS}/${what}-${name}.png` });
      await names("bob");
      await tab.click(`[id="${id}"] .join`);
      await names("bob", "alice");
      await shoot("page");
      await bob(`${service.address}/api/event/${id}`, { method: "DELETE" });
      await names("alice");

      const before = await service.refreshes("refreshed");
      await keep({ token: service.expired({ token: await cookie("token") }).token, refreshToken: await cookie("refreshToken") });
      await tab.click(`[id="${id}"] .leave`);
      await names();
      assert.equal(await service.refreshes("refreshed") - before, 1);

      await tab.type("[name=name]", " ");
      await tab.$eval("[name=scheduledAt]", (input) => (input.value = "2030-05-06T07:08"));
      await press(tab, "Create");
      await says(tab, "fault", "The request does not fit the contract");
      assert.match(await tab.$eval("#fault", (fault) => fault.textContent), /must be 1 to 200 characters/);
      await shoot("page-fault");

      await press(tab, "Sign out");
      await says(tab, "who", "Not signed in");
      assert.equal(await cookie("token"), undefined);
    });
  });
}
