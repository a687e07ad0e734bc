// Chromium, quiet and with a profile of its own.
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { patience } from "./service.mjs";

const flags = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];

const options = (more) => ({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: [...flags, ...more], timeout: patience });

/** A browser whose contexts are private windows, in which third-party cookies are blocked. */
export const startChromium = (...more) => chromium.launch(options(more));

/** A private window, whose tabs share cookies. */
export async function openWindow(browser, options) {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(patience);
  return context;
}

/** A context with a new profile of its own that allows third-party cookies, which Debian's Chromium blocks by default. */
export async function startProfile(...more) {
  const folder = await mkdtemp(join(tmpdir(), "worldevents-profile-"));
  await mkdir(join(folder, "Default"));
  await writeFile(join(folder, "Default/Preferences"), JSON.stringify({ profile: { cookie_controls_mode: 0 } }));
  const context = await chromium.launchPersistentContext(folder, options(more));
  context.setDefaultTimeout(patience);
  return { context, close: async () => {
    await context.close();
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  } };
}

/** The session's cookies as the browser keeps them. */
export const cookiesOf = (session, url) =>
  ["token", "refreshToken"].map((name) => ({ name, value: session[name], url, httpOnly: true, sameSite: "Lax" }));
