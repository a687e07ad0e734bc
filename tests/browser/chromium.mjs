// Chromium, quiet and with a profile of its own.
import { chromium } from "playwright-core";

const flags = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];

export const startChromium = (...more) =>
  chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: [...flags, ...more] });

/** The session's cookies as the browser keeps them. */
export const cookiesOf = (session, url) =>
  ["token", "refreshToken"].map((name) => ({ name, value: session[name], url, httpOnly: true, sameSite: "Lax" }));
