// The page of sessions, by clicking, in two browsers of one user.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { after, afterEach, before, test } from "node:test";
import { cookiesOf, openWindow, startChromium } from "./chromium.mjs";
import { startFront } from "./front.mjs";
import { freePort, startService } from "./service.mjs";

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

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
  const service = await serviceAt("/api-of/worlds"); // axe looks at /
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

test("axe finds nothing, and nothing is wider than the window", async () => {
  const service = await serviceAt("");
  const tab = await openTab(firefox);
  await audit(tab, `${service.base}/sign-in`, "sign-in");
  await audit(tab, `${service.base}/sessions`, "sessions-nobody");
  const swagger = { "nested-interactive": { enabled: false } }; // its headings of operations are so
  await audit(tab, `${service.base}/docs`, "docs-nobody", swagger);
  await signIn(tab, service);
  await audit(tab, `${service.base}/docs`, "docs", swagger);
  await audit(tab, `${service.base}/sessions`, "sessions-one");
  await audit(tab, `${service.base}/sign-in`, "sign-in-signed-in");
  for (const userAgent of [safari, "w".repeat(60), "x ".repeat(30), ...Array(6)]) await signIn(await openTab(userAgent), service);
  await audit(tab, `${service.base}/sessions`, "sessions-many");
  await tab.reload();
  assert.equal((await devices(tab)).length, 10);

  const production = await serviceAt("", { APP_ENV: "production" });
  await audit(await openTab(), `${production.base}/sessions`, "sessions-nobody-production");
});

/** Looks at a page with a tab that may run scripts and has the cookies of the given one: at its widest and light, at its narrowest and dark. */
async function audit(from, url, name, rules = {}) {
  const context = await openWindow(browser, { storageState: await from.context().storageState(), bypassCSP: true });
  const tab = await context.newPage();
  assert.equal((await tab.goto(url)).status(), 200);
  await tab.waitForLoadState("networkidle");
  await tab.evaluate(axe);
  for (const [colorScheme, width] of [["light", 1280], ["dark", 390]]) {
    await tab.emulateMedia({ colorScheme });
    await tab.setViewportSize({ width, height: 900 });
    if (process.env.SCREENSHOTS) await tab.screenshot({ path: `${process.env.SCREENSHOTS}/${name}-${colorScheme}-${width}.png`, fullPage: true });
    const { violations, passes } = await tab.evaluate((rules) => axe.run({ rules }), rules);
    assert.ok(passes.length > 10, `${passes.length} rules apply`);
    assert.deepEqual(violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]), [], `${name}, ${colorScheme}, at ${width} px`);
    assert.ok(await tab.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name} is wider than ${width} px`);
  }
  await context.close();
}
