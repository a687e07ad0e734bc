// Chromium and Firefox through one driver, for what both have to do. Each tab is a window of its own, so all are visible.
import { existsSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import puppeteer from "puppeteer-core";
import { eventually, patience } from "./service.mjs";

const programs = {
  chrome: process.env.CHROMIUM ?? "/usr/bin/chromium",
  firefox: process.env.FIREFOX ?? "/usr/bin/firefox-esr",
};
const args = { chrome: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"], firefox: [] };

/** The engines to test with; one that is missing is skipped, but never with CI=true. */
export const engines = Object.keys(programs).map((name) => ({
  name,
  skip: !existsSync(programs[name]) && process.env.CI !== "true" && `${programs[name]} is not installed`,
}));

/** Starts the engine `name` of `engines`, with preferences of Firefox and further options of the driver. */
export const startEngine = (name, { preferences, ...options } = {}) => puppeteer.launch({
  browser: name, executablePath: programs[name], headless: true, ...options,
  args: args[name], extraPrefsFirefox: preferences, protocolTimeout: patience, timeout: patience,
});

/** What `look` sees in a page, and false when the page goes away meanwhile: Firefox may never answer then, so it is given a while. */
const seen = (look) => Promise.race([look().catch(() => false), pause(patience / 4, false, { ref: false })]);

/**
 * Waits until `holds`, a function of the page, is true in the tab, across its navigations. The driver's own waiting makes a function of text
 * in the page, which Firefox 140.12 refuses under a strict Content-Security-Policy.
 */
export const becomes = (tab, holds, ...args) => eventually(`${holds} with ${args}`, () => seen(() => tab.evaluate(holds, ...args)));

/**
 * Clicks the element of this accessible name as soon as it is enabled and stands still. It looks in the document of the moment: the
 * driver's own look keeps a document, and one that it asked for between two pages is never replaced. One look does it all, since on a busy
 * machine it may take ten seconds.
 */
export const press = (tab, name) => eventually(`"${name}" can be clicked`, async () => {
  const still = await seen(async () => {
    const found = await (await tab.evaluateHandle(() => document)).$(`::-p-aria([name="${name}"])`);
    return await found?.evaluate(async (element) => {
      const place = () => element.isConnected && !element.disabled && JSON.stringify(element.getBoundingClientRect());
      const before = place();
      await new Promise((next) => setTimeout(next, 500));
      return before && place() === before;
    }) && found;
  });
  return still && still.click().then(() => true, () => false);
});

/** A browser profile of its own, whose tabs are signed in with these cookies, if any. */
export async function openProfile(browser, session, url, attributes = { sameSite: "Lax" }) {
  const context = await browser.createBrowserContext();
  const { hostname } = new URL(url);
  const keep = (session) => context.setCookie(...["token", "refreshToken"].map((name) => (
    { name, value: session[name], domain: hostname, path: "/", httpOnly: true, ...attributes })));
  if (session) await keep(session);
  let spare = []; // tabs of tests before, since opening one takes longer than all else
  return {
    keep,
    cookies: () => context.cookies(),
    cookie: async (name) => (await context.cookies()).find((cookie) => cookie.name === name)?.value,
    close: () => context.close(),
    /** Leaves all pages and signs out. */
    async clear() {
      spare = await context.pages();
      await Promise.all(spare.map((tab) => tab.goto("about:blank")));
      await context.deleteCookie(...await context.cookies());
    },
    /** Opens tabs on these addresses. One after the other: of several at once Chromium shows only the last. */
    async openTabs(paths) {
      const tabs = [];
      for (const path of paths) {
        const tab = spare.shift() ?? await context.newPage({ type: "window" });
        tab.setDefaultTimeout(patience);
        await tab.goto(new URL(path, url).href);
        tabs.push(tab);
      }
      return tabs;
    },
  };
}
