// Signs in through a certified identity provider in a real browser. SCREENSHOTS=folder keeps pictures of the pages.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { chromium } from "playwright-core";

import { patience } from "../browser/service.mjs";
import { start } from "./servers.mjs";

const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
const missing = !existsSync(executablePath) && `SKIPPED: no browser at ${executablePath} (set CHROMIUM)`;
if (missing && process.env.CI === "true") throw new Error(missing);
const options = { skip: missing, timeout: 300_000 };

let servers, browser;
before(async () => {
  if (missing) return;
  servers = await start();
  browser = await chromium.launch({
    executablePath,
    args: [
      "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync",
    ],
  });
});
after(async () => {
  await browser?.close();
  await servers?.stop();
});

/** A page of a browser that has never been here. */
async function freshPage() {
  const page = await (await browser.newContext()).newPage();
  page.setDefaultTimeout(patience);
  return page;
}

/** What a person does at the provider: log in, and agree the first time. */
async function logIn(page, name, isFirst = true) {
  await page.locator("input[name=login]").fill(name);
  await page.locator("input[name=password]").fill("any");
  await page.getByRole("button", { name: "Sign-in" }).click();
  if (isFirst) await page.getByRole("button", { name: "Continue" }).click();
}

/** Holds the first request of the callback back. It follows a redirect, which page.route does not see. */
async function holdCallback(page) {
  const browser = await page.context().newCDPSession(page);
  await browser.send("Fetch.enable", { patterns: [{ urlPattern: "*/sign-in/callback?*" }] });
  const callback = {};
  callback.held = new Promise((resolve) => {
    browser.once("Fetch.requestPaused", ({ requestId, request }) => {
      callback.url = request.url;
      callback.drop = () => browser.send("Fetch.failRequest", { requestId, errorReason: "Aborted" }).then(() => browser.detach());
      callback.release = () => browser.send("Fetch.continueRequest", { requestId }).then(() => browser.detach());
      resolve();
    });
  });
  return callback;
}

async function picture(page, name) {
  if (process.env.SCREENSHOTS) await page.screenshot({ path: join(process.env.SCREENSHOTS, `${name}.png`) });
}

/** All cookies but those of sign-ins, which stay for an hour. */
const sessionCookies = async (page) =>
  (await page.context().cookies(servers.address)).filter(({ name }) => !name.startsWith("signIn-"));
const sessionCookieNames = async (page) => (await sessionCookies(page)).map(({ name }) => name).sort();

test("from a page of another origin and back to it", options, async () => {
  const page = await freshPage();
  await page.goto(`${servers.app.origin}/room?id=7#top`);
  await page.getByRole("link", { name: "Sign in" }).click();
  await picture(page, "provider");
  await logIn(page, "alice");
  await page.getByText("Hello alice").waitFor();
  assert.equal(page.url(), `${servers.app.origin}/room?id=7#top`);
  await picture(page, "app");
  assert.deepEqual((await sessionCookies(page)).map(({ name, httpOnly, secure, sameSite }) => ({ name, httpOnly, secure, sameSite })), [
    { name: "token", httpOnly: true, secure: true, sameSite: "None" },
    { name: "refreshToken", httpOnly: true, secure: true, sameSite: "None" },
  ]);
});

test("in a pop-up, which keeps the page that opened it", options, async () => {
  const page = await freshPage();
  await page.goto(servers.app.origin);
  await page.evaluate(() => {
    window.heard = new Promise((hear) => (window.onmessage = ({ data }) => hear(data)));
  });
  const [popup] = await Promise.all([
    page.waitForEvent("popup"),
    page.evaluate((url) => void window.open(url), `${servers.address}/sign-in?return_to=${encodeURIComponent(servers.app.origin)}`),
  ]);
  popup.setDefaultTimeout(patience);
  await logIn(popup, "paula");
  await popup.getByText("Hello paula").waitFor();
  await popup.evaluate((origin) => window.opener.postMessage("signed in", origin), servers.app.origin);
  assert.equal(await page.evaluate(() => window.heard), "signed in");
});

test("a taken name is shown as what it became, and signing out is local", options, async () => {
  const page = await freshPage();
  await page.goto(`${servers.address}/docs`);
  await picture(page, "docs");
  await page.getByRole("link", { name: "Sign in" }).click();
  await logIn(page, "alice@elsewhere");
  await page.getByText("Signed in as alice-2").waitFor();
  assert.equal(page.url(), `${servers.address}/docs`);
  await picture(page, "docs-signed-in");

  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByText("Not signed in. Sign in").waitFor();
  assert.deepEqual(await sessionCookies(page), []);
  await page.getByRole("link", { name: "Sign in" }).click(); // the provider still knows who it is
  await page.getByText("Signed in as alice-2").waitFor();
});

test("a cancelled sign-in, and another try", options, async () => {
  const page = await freshPage();
  await page.goto(servers.app.origin);
  await page.getByRole("link", { name: "Sign in" }).click();
  await page.getByRole("link", { name: "Cancel" }).click();
  await page.getByText("The sign-in was cancelled").waitFor();
  assert.deepEqual(await sessionCookies(page), []);
  await picture(page, "cancelled");
  await page.getByRole("link", { name: "Sign in again" }).click();
  await logIn(page, "bob");
  await page.getByText("Hello bob").waitFor();
});

test("a callback counts once, and only in the browser that began", options, async () => {
  const page = await freshPage();
  const callback = await holdCallback(page);
  await page.goto(`${servers.address}/sign-in`);
  const agreed = logIn(page, "carol"); // ends when the page does
  await callback.held;
  await callback.drop();
  await agreed;

  const victim = await freshPage();
  await victim.goto(callback.url);
  await victim.getByText("not begun in this browser").waitFor();
  assert.deepEqual(await sessionCookies(victim), []);

  await page.goto(callback.url);
  await page.getByText("Signed in as carol").waitFor();
  await page.goto(callback.url);
  await page.getByText("over already").waitFor();
  await picture(page, "replayed");
  assert.deepEqual(await sessionCookieNames(page), ["refreshToken", "token"]); // the session of before is unharmed
});

test("three tabs at the provider finish in another order, each where it began", options, async () => {
  const first = await freshPage();
  const pages = [first, await first.context().newPage(), await first.context().newPage()];
  for (const [n, page] of pages.entries()) {
    page.setDefaultTimeout(patience);
    await page.goto(`${servers.address}/sign-in?return_to=/docs?${n}`);
  }
  for (const n of [1, 2, 0]) {
    await logIn(pages[n], "fred", n === 1);
    await pages[n].getByText("Signed in as fred").waitFor();
    assert.equal(pages[n].url(), `${servers.address}/docs?${n}`);
  }
});

test("who signs out at the provider is signed out here, on that device alone", options, async () => {
  const [page, other] = [await freshPage(), await freshPage()];
  for (const tab of [page, other]) {
    await tab.goto(`${servers.address}/sign-in?return_to=/openapi.json`);
    await logIn(tab, "erin");
    await tab.waitForURL(`${servers.address}/openapi.json`);
  }
  const list = async (tab) => (await tab.request.get(`${servers.address}/api/event/world`)).status();
  assert.deepEqual([await list(page), await list(other)], [200, 200]);
  await new Promise((resolve) => setTimeout(resolve, 1000 - (Date.now() % 1000))); // the token has whole seconds
  await page.goto(`${servers.provider.issuer}/session/end`);
  await page.getByRole("button", { name: "Yes, sign me out" }).click();
  await page.getByText("Sign-out Success").waitFor();
  assert.deepEqual([await list(page), await list(other)], [401, 200]);
});

test("the provider goes away in the middle", options, async () => {
  const page = await freshPage();
  const callback = await holdCallback(page);
  await page.goto(`${servers.address}/sign-in`);
  const agreed = logIn(page, "dora");
  await callback.held;
  await servers.provider.stop();
  await callback.release();
  await agreed;
  await page.getByText("The identity provider is away").waitFor();
  assert.deepEqual(await sessionCookies(page), []);
  await picture(page, "away");
});
