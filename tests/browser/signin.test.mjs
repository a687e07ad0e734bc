// Signing in and out in Chromium and Firefox where browsers say little of a request: behind a service worker and over plain HTTP. And in several tabs at once.
import assert from "node:assert/strict";
import { networkInterfaces } from "node:os";
import { after, afterEach, before, describe, test } from "node:test";
import { becomes, engines, openProfile, press, startEngine } from "./engines.mjs";
import { startFront } from "./front.mjs";
import { startProvider } from "./provider.mjs";
import { eventually, freePort, startService } from "./service.mjs";

const lan = Object.values(networkInterfaces()).flat().find(({ family, internal }) => family === "IPv4" && !internal)?.address;
const noNetwork = !lan && process.env.CI !== "true" && "this machine has no address but loopback";
const texts = { "/empty.html": "<!doctype html>", "/worker.js": 'self.addEventListener("fetch", (event) => event.respondWith(fetch(event.request)));' };

let provider, service, front, base;
let signIns; // requests that reached /sign-in, and how each ended
before(async () => {
  const port = await freePort();
  base = `http://localhost:${port}`; // browsers take Secure cookies from localhost
  provider = await startProvider();
  service = await startService({ APP_ENV: "production", BASE_URL: base, OIDC_ISSUER: provider.issuer, OIDC_CLIENT_ID: "worldevents" });
  front = await startFront(service.address, { port, texts, hold: ({ url, headers }, { statusCode }) => {
    if (url.startsWith("/sign-in?")) signIns.push([url.slice("/sign-in?".length), headers["sec-fetch-dest"], statusCode]);
  } });
});
after(async () => {
  await front?.stop();
  await service?.stop();
  await provider?.stop();
});

const says = (tab, text) => becomes(tab, (text) => document.body?.innerText.includes(text), text);

/** Has the tab's page embed the address in every way, where it is named after each. */
const embed = (tab, address) => tab.evaluate(async (address) => {
  const ended = (element) => new Promise((end) => (element.onload = element.onerror = end));
  const [image, frame] = [new Image(), document.createElement("iframe")];
  image.src = `${address}?image`;
  await ended(image);
  await fetch(`${address}?script`, { mode: "cors", credentials: "include" }).catch(() => {});
  frame.src = `${address}?frame`;
  document.body.append(frame);
  await ended(frame);
}, address);

for (const { name, skip } of engines) {
  describe(name, { skip }, () => {
    let browser, profile;
    before(async () => (browser = await startEngine(name)));
    after(() => browser?.close());
    afterEach(() => profile?.close());
    const openTabs = async (...urls) => {
      profile = await openProfile(browser, undefined, base);
      signIns = [];
      return profile.openTabs(urls);
    };

    test("behind a service worker a window signs in and out, and nothing that is embedded begins to", async () => {
      const [tab] = await openTabs(`${base}/empty.html`);
      await tab.evaluate(() => navigator.serviceWorker.register("/worker.js").then(() => navigator.serviceWorker.ready).then(() => {}));
      await tab.goto(`${base}/docs`);
      await press(tab, "Sign in");
      await press(tab, "Continue");
      await says(tab, "Signed in as alice");
      assert.deepEqual(signIns, [["return_to=/docs", "empty", 303]]); // no document: it came through the worker
      await press(tab, "Sign out");
      await says(tab, "Not signed in. Sign in");
      assert.equal(await profile.cookie("token"), undefined);
      await becomes(tab, () => document.readyState === "complete"); // Firefox may never answer when it leaves a page that still loads

      signIns = [];
      await tab.goto(`${base}/empty.html`);
      await tab.evaluate(async () => {
        const image = new Image();
        image.src = "/sign-in?image";
        await image.decode().catch(() => {});
        await fetch("/sign-in?script", { mode: "cors" });
      });
      assert.deepEqual(signIns, [["image", "empty", 403], ["script", "empty", 403]]);

      signIns = [];
      await tab.goto(provider.issuer); // another site
      await embed(tab, `${base}/sign-in`);
      assert.deepEqual(signIns, [["image", "image", 403], ["script", "empty", 403], ["frame", "iframe", 403]]);
    });

    test("three tabs at the provider finish in another order, each where it began", async () => {
      const tabs = await openTabs(...[1, 2, 3].map((n) => `${base}/sign-in?return_to=/docs?${n}`));
      for (const n of [2, 3, 1]) {
        await press(tabs[n - 1], "Continue");
        await says(tabs[n - 1], "Signed in as alice");
        assert.equal(await tabs[n - 1].evaluate(() => location.href), `${base}/docs?${n}`);
      }
    });

    test("over plain HTTP at an address of the network the forms sign in and out", { skip: noNetwork }, async (t) => {
      const port = await freePort();
      const service = await startService({ LISTEN_ADDR: `${lan}:${port}`, BASE_URL: "" });
      t.after(service.stop);
      const address = `http://${lan}:${port}`;
      const [tab] = await openTabs(`${address}/sign-in?return_to=/sessions`);
      assert.equal(await tab.evaluate(() => isSecureContext), false); // so it sends no Fetch Metadata
      await tab.type("#username", "alice");
      await press(tab, "Sign in");
      await says(tab, "Signed in as alice");
      assert.equal(await tab.evaluate(() => location.href), `${address}/sessions`);
      await press(tab, "Sign out");
      await eventually("the form shows", () => tab.url() === `${address}/sign-in`);
      assert.equal(await profile.cookie("token"), undefined);
    });
  });
}
