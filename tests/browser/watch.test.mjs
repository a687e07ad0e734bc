// Watching lists in many tabs, in Chromium and Firefox, and in Chromium alone where the browser makes no difference. ROUNDS=20
// repeats each test so often.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { becomes, engines, openProfile, startEngine } from "./engines.mjs";
import { startFront } from "./front.mjs";
import { eventually, fetchWithCookies, startService } from "./service.mjs";

const rounds = Number(process.env.ROUNDS ?? 1);
let service, front, url;
let waiting; // the calls that wait now: their responses
let calls; // how many lists have been asked for
let bob; // writes from elsewhere
let arrive = () => {};
let hold = () => {};

before(async () => {
  service = await startService({ SESSIONS_PER_USER: "100", ...JSON.parse(process.env.SERVICE_ENV ?? "{}") });
  front = await startFront(service.address, {
    hold: (...call) => hold(...call),
    arrive(request, response) {
      arrive(request, response);
      if (request.method !== "GET" || !request.url.startsWith("/api/event/")) return;
      calls++;
      if (!/[?&]wait=/.test(request.url)) return;
      waiting.add(response);
      response.on("close", () => waiting.delete(response));
    },
  });
  url = `http://localhost:${front.port}`;
});
after(async () => {
  await front?.stop();
  await service?.stop();
});

for (const { name, skip } of engines) {
  describe(name, { skip }, () => {
    let browser, profile;
    before(async () => {
      browser = await startEngine(name);
      profile = await openProfile(browser, undefined, url);
    });
    after(() => browser?.close());

    /** Repeats a test, each time with new worlds and a new session. */
    const repeat = (what, act) => test(what, async () => {
      for (let round = 1; round <= rounds; round++) {
        [waiting, calls, arrive, hold] = [new Set(), 0, () => {}, () => {}];
        const session = await service.issue("alice");
        bob = fetchWithCookies(await service.issue("bob")); // anew: 20 rounds take longer than a JWT lasts
        await profile.keep(session);
        try {
          const openTabs = (worlds) => profile.openTabs(worlds.map((world) => `/page/?world=${world}`));
          await act({ ...profile, openTabs, session });
        } catch (error) {
          throw new Error(`round ${round}: ${error.message} (${waiting.size} calls wait)`, { cause: error });
        } finally {
          await profile.clear();
        }
      }
      if (rounds > 1) console.log(`${name}: ${what}: ${rounds} of ${rounds}`);
    });
    const inChromium = name === "chrome" ? repeat : () => {};

    repeat("tabs on one world have one waiting call, which is handed over", async ({ openTabs }) => {
      const world = await newWorld();
      const tabs = await openTabs(Array(4).fill(world));
      await everybodySees(tabs, await write(world));
      await eventually("one call waits", () => waiting.size === 1);
      while (tabs.length > 1) {
        await tabs.shift().close();
        await everybodySees(tabs, await write(world));
        await eventually("one call waits", () => waiting.size === 1);
      }
    });

    repeat("six tabs on six worlds have two waiting calls, and the others poll", async ({ openTabs }) => {
      const worlds = await Promise.all(Array.from({ length: 6 }, newWorld));
      let most = 0;
      arrive = () => setImmediate(() => (most = Math.max(most, waiting.size)));
      const tabs = await openTabs(worlds);
      await eventually("two calls wait", () => waiting.size === 2);
      await Promise.all(tabs.map(async (tab, i) => everybodySees([tab], await write(worlds[i]))));
      // A user's own write is seen at once, also where the list polls.
      for (const tab of tabs) {
        await tab.click(".join");
        await becomes(tab, () => [...document.querySelectorAll("li.me")].length === 1);
      }
      assert.ok(most <= 2, `${most} calls waited`);
    });

    repeat("reloading tabs neither loses news nor piles up calls", async ({ openTabs }) => {
      const world = await newWorld();
      const tabs = await openTabs(Array(3).fill(world));
      for (let i = 0; i < 3; i++) {
        await Promise.all([tabs[i % 3].reload(), i % 2 && tabs[(i + 1) % 3].reload()]);
        await everybodySees(tabs, await write(world));
      }
      await eventually("one call waits", () => waiting.size === 1);
    });

    inChromium("a tab that hangs loses the lead", async ({ openTabs }) => {
      const world = await newWorld();
      const tabs = await openTabs([world]); // the first one leads
      await everybodySees(tabs, await write(world));
      tabs.push(...await openTabs([world, world]));
      await everybodySees(tabs, await write(world));
      let release, hangs = false;
      const released = new Promise((resolve) => (release = resolve));
      hold = (request) => request.url === "/livez" && (hangs = true) && released;
      const hang = tabs[0].evaluate(() => {
        const request = new XMLHttpRequest();
        request.open("GET", "/livez", false); // Chromium does nothing else until the response comes, Firefox does.
        request.send();
      });
      await eventually("it hangs", () => hangs);
      const event = await write(world);
      await everybodySees(tabs.slice(1), event);
      release();
      await hang;
      await everybodySees(tabs, event);
      await everybodySees(tabs, await write(world));
      await eventually("one call waits", () => waiting.size <= 1);
    });

    inChromium("a tab that is frozen hands over, and takes part again", async ({ openTabs }) => {
      const world = await newWorld();
      const tabs = await openTabs([world]);
      await everybodySees(tabs, await write(world));
      tabs.push(...await openTabs([world]));
      const devtools = await tabs[0].createCDPSession();
      await devtools.send("Page.setWebLifecycleState", { state: "frozen" });
      const event = await write(world);
      await everybodySees(tabs.slice(1), event);
      await devtools.send("Page.setWebLifecycleState", { state: "active" });
      await show(tabs[0], true); // The driver hides a page that it freezes, and leaves it so.
      await everybodySees(tabs, event);
      await everybodySees(tabs, await write(world));
      await tabs[0].close();
    });

    inChromium("a hidden tab makes no calls, and shows the latest list once it is seen", async ({ openTabs }) => {
      const world = await newWorld();
      const tabs = await openTabs([world, world]);
      await everybodySees(tabs, await write(world));
      await show(tabs[0], false);
      await everybodySees(tabs.slice(1), await write(world));
      await show(tabs[1], false);
      await eventually("nobody waits", () => waiting.size === 0);
      const before = calls;
      const event = await write(world);
      await new Promise((next) => setTimeout(next, 6_000)); // longer than the interval of polling
      assert.equal(calls, before);
      for (const tab of tabs) await show(tab, true);
      await everybodySees(tabs, event);
      await everybodySees(tabs, await write(world));
    });

    repeat("a JWT that expires while tabs wait is refreshed once, and nothing is lost", async ({ openTabs, keep, session }) => {
      const world = await newWorld();
      const before = await service.refreshes("refreshed");
      const tabs = await openTabs(Array(3).fill(world));
      await everybodySees(tabs, await write(world));
      await keep(service.expiresIn(session, 5));
      await everybodySees(tabs, await write(world)); // The next call waits with this JWT.
      await eventually("the session is refreshed", async () => await service.refreshes("refreshed") > before);
      await everybodySees(tabs, await write(world));
      assert.equal(await service.refreshes("refreshed") - before, 1);
      for (const tab of tabs) assert.match(await tab.$eval("#who", (who) => who.textContent), /^Signed in as alice/);
    });

    inChromium("both tabs say that they are offline while a proxy answers, and live again after it", async ({ openTabs }) => {
      const world = await newWorld();
      const tabs = await openTabs([world, world]);
      const say = (word) => Promise.all(tabs.map((tab) =>
        becomes(tab, (word) => document.getElementById("live").textContent.startsWith(word), word)));
      await say("Live since");
      hold = (request, answer) => {
        if (request.url.startsWith("/api/event/")) answer.statusCode = 404;
      };
      await write(world); // ends the call that waits
      await say("Offline");
      for (const tab of tabs) assert.match(await tab.$eval("#fault", (fault) => fault.textContent), /404/);
      hold = () => {};
      await say("Live since");
      await everybodySees(tabs, await write(world));
      for (const tab of tabs) assert.equal(await tab.$eval("#fault", (fault) => fault.hidden), true);
    });

    repeat("behind a front that ends waits after 1.5 seconds tabs stay live, and others' changes come", async ({ openTabs }) => {
      const world = await newWorld();
      const waits = [];
      arrive = ({ url }, response) => {
        const wait = url.match(/[?&]wait=(\d+)/)?.[1];
        if (!wait) return;
        waits.push(wait);
        setTimeout(() => response.headersSent || response.writeHead(504).end(), 1_500);
      };
      const tabs = await openTabs([world, world]);
      for (const tab of tabs) {
        await becomes(tab, () => document.getElementById("live").textContent.startsWith("Live since"));
        await tab.evaluate(() => {
          window.said = [];
          const live = document.getElementById("live");
          new MutationObserver(() => said.push(live.textContent)).observe(live, { childList: true, characterData: true, subtree: true });
        });
      }
      await eventually("half as long is waited", () => waits.includes("12"));
      await everybodySees(tabs, await write(world));
      await eventually("a quarter is", () => waits.includes("6"));
      const before = calls;
      await eventually("nothing waits, and the list is asked for", () => waiting.size === 0 && calls > before + 2);
      await everybodySees(tabs, await write(world));
      assert.deepEqual([...new Set(waits)], ["25", "12", "6"]);
      for (const tab of tabs) assert.deepEqual(await tab.evaluate(() => said), []);
    });

    inChromium("signing out in one tab ends the watches of all", async ({ openTabs }) => {
      const world = await newWorld();
      const tabs = await openTabs(Array(3).fill(world));
      await everybodySees(tabs, await write(world));
      await tabs[1].click("#sign-out");
      for (const tab of tabs) await becomes(tab, () => document.getElementById("who").textContent === "Not signed in");
      await eventually("nobody waits", () => waiting.size === 0);
      const before = calls;
      await write(world);
      await new Promise((next) => setTimeout(next, 2_000));
      assert.equal(calls, before);
      for (const tab of tabs) assert.equal(await tab.$$eval("article", (articles) => articles.length), 0);
    });

    inChromium("after the machine has slept a dead connection is not waited for", async ({ openTabs }) => {
      const world = await newWorld();
      const tabs = await openTabs([world, world]);
      for (const tab of tabs) {
        await tab.evaluate(() => { // A call that waits in vain would else end by itself.
          const { setTimeout } = window;
          window.setTimeout = (act, delay) => delay < 30_000 && setTimeout(act, delay);
        });
      }
      await everybodySees(tabs, await write(world)); // The next call waits with this.
      await eventually("one call waits", () => waiting.size === 1);
      const lost = new Set(waiting);
      hold = (request) => {
        if (/[?&]wait=/.test(request.url) && lost.size) return lost.clear(), new Promise(() => {}); // never arrives
      };
      const event = await write(world);
      await eventually("the response is lost", () => lost.size === 0);
      for (const tab of tabs) {
        await tab.evaluate(() => { // What a page notices of having slept is that its clock has gone on.
          const { now } = Date;
          Date.now = () => now() + 17_000;
        });
      }
      await everybodySees(tabs, event);
    });
  });
}

let worlds = 0;
const newWorld = async () => {
  const world = `world-${process.pid}-${++worlds}`;
  await write(world);
  return world;
};

/** Bob creates an event; returns its id. */
const write = (world) => service.create(bob, world);

const everybodySees = (tabs, id) => Promise.all(tabs.map((tab) => becomes(tab, (id) => document.getElementById(id) !== null, id)));

/** Shows or hides a tab, as its page sees it. */
const show = (tab, visible) => tab.evaluate((visible) => {
  Object.defineProperty(document, "hidden", { value: !visible, configurable: true });
  document.dispatchEvent(new Event("visibilitychange", { bubbles: true }));
}, visible);
