// The page of sessions, by clicking, in two browsers of one user.
import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { cookiesOf, openWindow, startChromium } from "./chromium.mjs";
import { startFront } from "./front.mjs";
import { freePort, startService } from "./service.mjs";

let browser;
before(async () => (browser = await startChromium()));
after(() => browser?.close());

let running = [];
afterEach(async () => {
  for (const part of running.reverse()) await (part.stop ?? part.close).call(part);
  running = [];
});

async function start(part) {
  running.push(await part);
  return running.at(-1);
}

/** A service at http://localhost:PORT/PATH. */
async function serviceAt(path, env) {
  const port = await freePort();
  const base = `http://localhost:${port}${path}`;
  const service = await start(startService({ BASE_URL: base, SESSIONS_PER_USER: "20", ...env }));
  await start(startFront(service.address, { path, port }));
  return { ...service, base };
}

/** A tab of a browser with cookies of its own, without scripts. It notes what the browser complains about. */
async function openTab(userAgent) {
  const context = await start(openWindow(browser, { userAgent, javaScriptEnabled: false }));
  const tab = await context.newPage();
  tab.complaints = [];
  tab.on("console", (message) => ["error", "warning"].includes(message.type()) && tab.complaints.push(message.text()));
  return tab;
}

async function signIn(tab, service) {
  await tab.goto(`${service.base}/sessions`);
  await tab.getByText("Nobody is signed in here").waitFor();
  await tab.getByRole("link", { name: "Sign in" }).click();
  await tab.getByLabel("Username").fill("alice");
  await tab.getByRole("button", { name: "Sign in" }).click();
  await tab.waitForURL(`${service.base}/sessions`);
}

const devices = (tab) => tab.getByRole("heading", { level: 3 }).allInnerTexts();
const ends = (tab, device) => tab.getByRole("listitem").filter({ hasText: device }).getByRole("button", { name: "End this session" });

const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0";
const safari = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4.1 Mobile/15E148 Safari/604.1";

test("two browsers see each other, and one ends the other, under a path", async () => {
  const service = await serviceAt("/api-of/worlds");
  const [laptop, phone, tablet] = [await openTab(firefox), await openTab(safari), await openTab()];
  await signIn(laptop, service);
  assert.deepEqual(await devices(laptop), ["Firefox on Linux"]);
  await signIn(phone, service);
  assert.deepEqual(await devices(phone), ["Safari on iPhone", "Firefox on Linux"]);
  await signIn(tablet, service);
  await laptop.reload();
  assert.deepEqual(await devices(laptop), ["Firefox on Linux", "Chrome on Linux", "Safari on iPhone"]);

  const before = await laptop.context().cookies();
  await ends(laptop, "Safari on iPhone").click();
  await laptop.waitForURL(`${service.base}/sessions`);
  assert.deepEqual(await devices(laptop), ["Firefox on Linux", "Chrome on Linux"]);
  await phone.reload();
  await phone.getByText("Nobody is signed in here").waitFor();

  await laptop.getByRole("button", { name: "End all others" }).click();
  await laptop.getByText("You are signed in nowhere else").waitFor();
  assert.deepEqual(await devices(laptop), ["Firefox on Linux"]);
  await tablet.reload();
  await tablet.getByText("Nobody is signed in here").waitFor();
  assert.deepEqual(await laptop.context().cookies(), before);

  await ends(laptop, "Firefox on Linux").click();
  await laptop.waitForURL(`${service.base}/sign-in`);
  assert.deepEqual(await laptop.context().cookies(), []);
  for (const tab of [laptop, phone, tablet]) assert.deepEqual(tab.complaints, []);
});

test("the docs lead to the page", async () => {
  const service = await serviceAt("/api-of/worlds");
  const tab = await openTab();
  await tab.context().addCookies(cookiesOf(await service.issue("alice"), service.base));
  await tab.goto(`${service.base}/docs`);
  await tab.getByRole("link", { name: "Sessions" }).click();
  await tab.getByRole("heading", { name: "This device" }).waitFor();
  assert.deepEqual(await devices(tab), ["command line"]);
});
