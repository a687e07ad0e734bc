// Swagger UI and the sign-in page, by clicking, under the strict Content-Security-Policy.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { cookiesOf, openWindow, startChromium } from "./chromium.mjs";
import { startFront } from "./front.mjs";
import { freePort, startService } from "./service.mjs";

let browser;
before(async () => (browser = await startChromium()));
after(() => browser?.close());

const shoot = (tab, name) => process.env.SCREENSHOTS && tab.screenshot({ path: `${process.env.SCREENSHOTS}/${name}.png` });

test("all six operations work by clicking, under a path", async (t) => {
  const path = "/api-of/worlds"; // the tests below are at /
  const port = await freePort();
  const base = `http://localhost:${port}${path}`;
  const service = await startService({ BASE_URL: base });
  t.after(service.stop);
  await service.demo();
  const front = await startFront(service.address, { port, path });
  t.after(front.stop);
  const { context, tab, complaints } = await openTab();
  t.after(() => context.close());

  await tab.goto(`${base}/docs`);
  await tab.getByRole("link", { name: "Sign in" }).click();
  await tab.getByLabel("Username").fill("dora");
  await shoot(tab, "sign-in");
  await tab.getByRole("button", { name: "Sign in" }).click();
  await tab.getByText("Signed in as dora").waitFor();
  assert.equal(tab.url(), `${base}/docs`);
  await shoot(tab, "docs");

  assert.ok((await tab.locator(".opblock").first().boundingBox()).y < 300, "the page opens on the operations");
  assert.deepEqual(await execute(tab, "auth", "getSession"), [200, { authenticated: true }]);
  assert.match(await tab.locator("#operations-auth-getSession .curl").innerText(), /-b 'token=…; refreshToken=…'/);
  await tab.getByText("sets two httpOnly cookies").waitFor(); // what the contract says of all operations
  assert.deepEqual(await execute(tab, "auth", "refreshSession"), [200, { success: true }]);
  assert.deepEqual(await execute(tab, "events", "createEvent"), [200, { success: true }]);
  const [, { events }] = await execute(tab, "events", "listEvents");
  const names = events.map((event) => event.RSVPs.map((rsvp) => rsvp.user.username).join());
  assert.ok(names.includes("dora") && names.includes("alice,bob,carol"), `${names}`); // hers, and the demo's
  await tab.locator("#operations-events-listEvents .live-responses-table").scrollIntoViewIfNeeded();
  await shoot(tab, "docs-list");
  assert.deepEqual(await execute(tab, "events", "joinEvent"), [200, { success: true }]);
  assert.deepEqual(await execute(tab, "events", "leaveEvent"), [200, { success: true }]);

  await tab.getByRole("button", { name: "Sign out" }).click();
  await tab.waitForURL(`${base}/sign-in`);
  assert.deepEqual(await context.cookies(), []);
  assert.deepEqual(complaints, []);
});

test("a session that has expired is shown as the user's again", async (t) => {
  const service = await startService();
  t.after(service.stop);
  const { context, tab, complaints } = await openTab();
  t.after(() => context.close());
  await context.addCookies(cookiesOf(service.expired(await service.issue("alice")), service.address));
  await tab.goto(`${service.address}/docs`);
  await tab.getByText("Signed in as alice").waitFor();
  assert.deepEqual(complaints, []);
});

test("in the dark nothing of a response glares", async (t) => {
  const service = await startService();
  t.after(service.stop);
  await service.demo();
  const { context, tab } = await openTab({ colorScheme: "dark" });
  t.after(() => context.close());
  await context.addCookies(cookiesOf(await service.issue("alice"), service.address));
  await tab.goto(`${service.address}/docs`);
  await execute(tab, "events", "listEvents");
  const shown = tab.locator("#operations-events-listEvents");
  const canvas = await context.newPage();
  for (const part of [".live-responses-table", ".curl-command", ".request-url", ".parameters-container"]) {
    const share = await lightShare(canvas, await shown.locator(part).screenshot());
    assert.ok(share < 0.1, `${share} of ${part} is light`); // its letters are
  }
  await tab.emulateMedia({ colorScheme: "light" }); // as systems do in the morning
  assert.ok(await lightShare(canvas, await shown.locator(".parameters-container").screenshot()) > 0.8);
});

test("in production, without a sign-in page, the docs say how to sign in", async (t) => {
  const service = await startService({ APP_ENV: "production" });
  t.after(service.stop);
  const { context, tab, complaints } = await openTab();
  t.after(() => context.close());
  await tab.goto(`${service.address}/docs`);
  await tab.getByText("sign in with the application that uses this service").waitFor();
  assert.deepEqual((await execute(tab, "events", "listEvents"))[0], 401);
  assert.deepEqual(complaints, ["Failed to load resource: the server responded with a status of 401 (Unauthorized)"]);
});

/** A tab that notes what the browser complains about on its console, violations of the page's policy among them. */
async function openTab(options) {
  const context = await openWindow(browser, { viewport: { width: 1280, height: 900 }, ...options });
  const tab = await context.newPage();
  const complaints = [];
  tab.on("console", (message) => ["error", "warning"].includes(message.type()) && complaints.push(message.text()));
  tab.on("pageerror", (error) => complaints.push(error.message));
  return { context, tab, complaints };
}

/** Which share of the pixels of a picture is light, as an empty page sees it. */
const lightShare = (page, png) => page.evaluate(async (base64) => {
  const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${base64}`)).blob());
  const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, image.width, image.height);
  let light = 0;
  for (let i = 0; i < data.length; i += 4) if (data[i] + data[i + 1] + data[i + 2] > 3 * 128) light++;
  return light / (data.length / 4);
}, png.toString("base64"));

/** Opens an operation, presses Execute with the examples as they stand, and returns the status and body shown. */
async function execute(tab, tag, operation) {
  const block = tab.locator(`#operations-${tag}-${operation}`);
  await block.locator(".opblock-summary-control").click();
  await block.getByRole("button", { name: "Execute" }).click();
  const answer = block.locator(".live-responses-table .response");
  const status = Number(await answer.locator(".response-col_status").first().innerText());
  return [status, JSON.parse(await answer.locator(".response-col_description .highlight-code code").first().innerText())];
}
