// Signing in inside a pop-up that a page of an allowed origin has opened.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openWindow, startChromium } from "./chromium.mjs";
import { startFront } from "./front.mjs";
import { freePort, startService } from "./service.mjs";

let service, front, browser, app;
before(async () => {
  const port = await freePort();
  app = `http://localhost:${port}`;
  service = await startService({ ALLOWED_ORIGINS: app, RETURN_ORIGINS: app, BASE_URL: "" });
  service.base = `http://localhost:${service.port}`; // the default, which is on the site of the app
  front = await startFront(service.address, { port, connect: service.base });
  browser = await startChromium();
});
after(async () => {
  await browser?.close();
  await front?.stop();
  await service?.stop();
});

test("the page that opened it loses hold of it, is signed in, and hears so through a channel of its own", async () => {
  const context = await openWindow(browser);
  const page = await context.newPage();
  await page.goto(`${app}/page/`);
  await page.evaluate(() => {
    window.heard = new Promise((hear) => (new BroadcastChannel("sign-in").onmessage = ({ data }) => hear(data)));
  });
  const back = `${app}/page/?done`;
  const [popup] = await Promise.all([
    page.waitForEvent("popup"),
    page.evaluate((url) => void (window.popup = window.open(url)), `${service.base}/sign-in?return_to=${encodeURIComponent(back)}`),
  ]);
  await popup.getByLabel("Username").fill("alice");
  assert.equal(await page.evaluate(() => window.popup.closed), true, "the page holds on to the service's window");
  await popup.getByRole("button", { name: "Sign in" }).click();
  await popup.waitForURL(back);
  assert.equal(await popup.evaluate(() => window.opener), null);
  await popup.evaluate(() => new BroadcastChannel("sign-in").postMessage("done"));
  assert.equal(await page.evaluate(() => window.heard), "done");
  const status = (url) => page.evaluate((url) => fetch(url, { credentials: "include" }).then((response) => response.status), url);
  assert.equal(await status(`${service.base}/api/auth/session`), 200);
});
