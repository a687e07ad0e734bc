// Chromium and Firefox through one driver, for what both have to do. Each tab is a window of its own, so all are visible.
import { existsSync } from "node:fs";
import puppeteer from "puppeteer-core";

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
  args: args[name], extraPrefsFirefox: preferences,
});

/** A browser profile of its own, whose tabs are signed in with these cookies, if any. */
export async function openProfile(browser, session, url, attributes = { sameSite: "Lax" }) {
  const context = await browser.createBrowserContext();
  const { hostname } = new URL(url);
  const keep = (session) => context.setCookie(...["token", "refreshToken"].map((name) => (
    { name, value: session[name], domain: hostname, path: "/", httpOnly: true, ...attributes })));
  if (session) await keep(session);
  return {
    keep,
    cookies: () => context.cookies(),
    cookie: async (name) => (await context.cookies()).find((cookie) => cookie.name === name)?.value,
    close: () => context.close(),
    /**
     * Opens tabs on these addresses, in which `script` runs before all others. One after the other: of several at once Chromium
     * shows only the last.
     */
    async openTabs(paths, script = () => {}) {
      const tabs = [];
      for (const path of paths) {
        const tab = await context.newPage({ type: "window" });
        await tab.evaluateOnNewDocument(script);
        await tab.goto(new URL(path, url).href);
        tabs.push(tab);
      }
      return tabs;
    },
  };
}
