// Swagger UI and the sign-in page, by clicking, under the strict Content-Security-Policy.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { cookiesOf, openWindow, startChromium } from "./chromium.mjs";
import { startFront } from "./front.mjs";
import { eventually, freePort, startService } from "./service.mjs";

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

  assert.ok((await tab.locator(".opblock").first().boundingBox()).y < 450, "the page opens on the operations");
  assert.deepEqual(await execute(tab, "auth", "getSession"), [200, { authenticated: true }]);
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
  for (const part of [".live-responses-table", ".calls", ".request-url", ".parameters-container"]) {
    const share = await lightShare(canvas, await shown.locator(part).screenshot());
    assert.ok(share < 0.1, `${share} of ${part} is light`); // its letters are
  }
  await tab.emulateMedia({ colorScheme: "light" }); // as systems do in the morning
  assert.ok(await lightShare(canvas, await shown.locator(".parameters-container").screenshot()) > 0.8);
});

test("the first steps work", async (t) => {
  const service = await startService();
  t.after(service.stop);
  await service.demo();
  const { context, tab, complaints } = await openTab();
  t.after(() => context.close());
  await tab.goto(`${service.address}/docs`);
  await tab.locator(".intro").getByRole("link", { name: "Sign in" }).click();
  await tab.getByLabel("Username").fill("erin");
  let late;
  await tab.route("**/openapi.json", (route) => (late = route));
  await tab.keyboard.press("Enter");
  await tab.waitForURL(`${service.address}/docs`);
  await eventually("the contract is asked for", () => late);
  await tab.getByRole("link", { name: "Try listEvents" }).click(); // before the contract is there
  await late.continue();
  await tab.locator("#operations-events-listEvents .execute:focus").waitFor();
  await tab.unroute("**/openapi.json");
  await tab.goto("about:blank");
  await tab.goto(`${service.address}/docs`);
  await tab.locator("#operations-events-listEvents").waitFor();
  await tab.getByRole("link", { name: "Try listEvents" }).click();
  await tab.locator("#operations-events-listEvents .execute:focus").waitFor();
  assert.equal(tab.url(), `${service.address}/docs#/events/listEvents`);
  const block = tab.locator("#operations-events-listEvents");
  const boxes = () => block.evaluate((block) => [".opblock-description-wrapper", ".opblock-section"].map((part) => block.querySelector(part).getBoundingClientRect().toJSON()));
  await eventually("the parameters are in view", async () => {
    const [, { y }] = await boxes();
    return y >= 0 && y < 200;
  });
  const [text, form] = await boxes(); // both at once, since the page may still scroll
  assert.ok(form.x >= text.x + text.width && Math.abs(form.y - text.y) < 50, "they stand beside the text");
  await block.locator("details.headers-of:not([open]) summary").first().click();
  await block.locator("details[open] table.headers").first().waitFor();
  await tab.locator("#operations-events-listEvents .execute").focus();
  await tab.keyboard.press("Enter");
  const [status, { events }] = await answerOf(tab.locator("#operations-events-listEvents"));
  assert.equal(status, 200);
  assert.ok(events.length > 1, `${events.length} events of plaza`);
  assert.deepEqual(complaints, []);
});

test("each operation has a call for curl and one for the TypeScript client, which work", async (t) => {
  const path = "/api-of/worlds";
  const port = await freePort();
  const base = `http://localhost:${port}${path}`;
  const service = await startService({ BASE_URL: base, SESSIONS_PER_USER: "20" });
  t.after(service.stop);
  await service.demo();
  const front = await startFront(service.address, { port, path });
  t.after(front.stop);
  const { context, tab } = await openTab({ bypassCSP: true, permissions: ["clipboard-read", "clipboard-write"] }); // to run what is shown
  t.after(() => context.close());
  await tab.goto(`${base}/sign-in`);
  await tab.getByLabel("Username").fill("alice");
  await tab.keyboard.press("Enter");
  await tab.waitForURL(`${base}/docs`);
  let resolved;
  await tab.exposeFunction("resolved", (result) => resolved(result));

  for (const [tag, operation] of [["auth", "getSession"], ["auth", "refreshSession"], ["events", "createEvent"], ["events", "listEvents"], ["events", "joinEvent"], ["events", "leaveEvent"]]) {
    const block = tab.locator(`#operations-${tag}-${operation}`);
    await block.locator(".opblock-summary-control").click();
    for (const executed of [false, true]) {
      if (executed) {
        await block.getByRole("button", { name: "Execute" }).click();
        await answerOf(block);
      }
      await block.getByRole("button", { name: "Copy for curl" }).click();
      await block.getByText("Copied").waitFor();
      const curl = await tab.evaluate(() => navigator.clipboard.readText());
      assert.equal(curl, await block.locator(".call", { hasText: "curl" }).locator("pre").innerText());
      assert.ok(curl.startsWith("C=$(./bin/worldevents session issue bob)\n"), curl);
      const { token, refreshToken } = await service.issue("bob");
      const { stdout } = await promisify(execFile)("bash", ["-c", curl.replace(/\$\(.*\)/, `'token=${token}; refreshToken=${refreshToken}'`)]);
      assert.match(stdout, /^HTTP\/1.1 200 OK\r\n[^]*\r\n\r\n{/, curl);

      const script = await block.locator(".call", { hasText: "TypeScript" }).locator("pre").innerText();
      const result = new Promise((resolve) => (resolved = resolve));
      await tab.addScriptTag({ type: "module", content: `${script.replace('"worldevents-client"', '"/client/index.js"')}\nresolved({ data, error });` });
      assert.ok((await result).data, `${script}\n${JSON.stringify(await result)}`);
    }
  }
});

test("errors are listed by their codes", async (t) => {
  const service = await startService();
  t.after(service.stop);
  const { context, tab } = await openTab();
  t.after(() => context.close());
  await tab.goto(`${service.address}/docs`);
  const contract = await (await fetch(`${service.address}/openapi.json`)).json();
  const codes = Object.values(contract.components.schemas).flatMap(({ allOf }) => allOf?.[1].properties.code.enum ?? []);
  const listed = tab.getByRole("region", { name: "Errors by code" });
  assert.deepEqual((await listed.locator("dt code").allInnerTexts()).sort(), codes.sort());
  assert.equal(await listed.locator("dt", { hasText: "token_expired" }).locator("b").innerText(), "401");
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
  return answerOf(block);
}

/** The status and the body of the response that an operation shows. */
async function answerOf(block) {
  const answer = block.locator(".live-responses-table .response");
  const status = Number(await answer.locator(".response-col_status").first().innerText());
  return [status, JSON.parse(await answer.locator(".response-col_description .highlight-code code").first().innerText())];
}
