// axe over every page that the service serves, light and wide, dark and narrow. It finds nothing, in Swagger UI neither.
// SCREENSHOTS=folder keeps a picture of all that it looks at.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { cookiesOf, openWindow, startChromium } from "./chromium.mjs";
import { fetchWithCookies, startService } from "./service.mjs";

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let browser;
before(async () => (browser = await startChromium()));
after(() => browser?.close());

const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0";
const safari = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4.1 Mobile/15E148 Safari/604.1";

test("sign-in and sessions", async (t) => {
  const service = await start(t, { SESSIONS_PER_USER: "20", OIDC_ISSUER: "http://localhost:1", OIDC_CLIENT_ID: "x" });
  const tab = await openTab(t, { userAgent: firefox });
  await tab.goto(`${service.address}/sessions`);
  await audit(tab, "sessions-nobody");
  await tab.goto(`${service.address}/sign-in/callback?state=x&code=x`);
  await tab.getByRole("heading", { name: "The sign-in did not work" }).waitFor();
  await audit(tab, "sign-in-error");

  await tab.goto(`${service.address}/sign-in`);
  await audit(tab, "sign-in");
  await signIn(tab, "alice");
  await tab.waitForURL(`${service.address}/docs`);
  await tab.goto(`${service.address}/sign-in`);
  await audit(tab, "sign-in-signed-in");

  await tab.goto(`${service.address}/sessions`);
  await audit(tab, "sessions-one");
  for (const userAgent of [safari, "w".repeat(60), "x ".repeat(30), ...Array(6)]) {
    const other = await openTab(t, { userAgent });
    await other.goto(`${service.address}/sign-in`);
    await signIn(other, "alice");
    await other.waitForURL(`${service.address}/docs`);
  }
  await tab.reload();
  assert.equal(await tab.getByRole("heading", { level: 3 }).count(), 10);
  await audit(tab, "sessions-many");
  await tab.evaluate(() => {
    const form = document.createElement("form");
    Object.assign(form, { method: "post", action: "/sessions/end?%zz" }); // no form that can be read
    document.body.append(form);
    form.submit();
  });
  await tab.getByRole("alert").waitFor();
  await audit(tab, "sessions-error");
});

test("events", async (t) => {
  const service = await start(t);
  const tab = await openTab(t);
  await tab.goto(`${service.address}/events`);
  await audit(tab, "events-nobody");
  const [alice, bob] = [await service.issue("alice"), await service.issue("bob")];
  const [asAlice, asBob] = [fetchWithCookies(alice), fetchWithCookies(bob)];
  await tab.context().addCookies(cookiesOf(alice, service.address));
  await tab.reload();
  await audit(tab, "events-none");

  const id = await service.create(asAlice, "plaza", { name: "Rooftop concert", description: "Bring a coat.\nDoors at eight." });
  for (const name of ["w".repeat(200), "word ".repeat(40), "مساء الخير في الساحة", "夜の音楽会", "</h3><script>alert(1)</script>"]) {
    await service.create(asAlice, encodeURIComponent(`${name.slice(0, 60)} ${name.length}`), { name });
  }
  const theirs = await service.create(asBob, "plaza", { name: "Chess" });
  await asAlice(`${service.address}/api/event/join/${theirs}`, { method: "POST" });
  for (let n = 0; n < 51; n++) await service.create(asAlice, "old", { name: `Evening ${n}`, scheduledAt: "2020-01-02T03:04:05Z" });
  await tab.reload();
  assert.equal(await tab.getByRole("heading", { level: 4 }).count(), 7);
  await audit(tab, "events-some");
  await tab.locator(".menu summary").nth(1).click();
  await audit(tab, "events-menu");
  await tab.goto(`${service.address}/events?list=made&past=true&world=old`);
  assert.equal(await tab.getByRole("heading", { level: 4 }).count(), 50);
  await audit(tab, "events-past", [["dark", 390]]);
  await tab.goto(`${service.address}/nothing`);
  await audit(tab, "not-found");
  await tab.goto(`${service.address}/sign-out`);
  await audit(tab, "sign-out");
  await tab.goto(`${service.address}/events/cancel?id=${id}`);
  await audit(tab, "events-cancel");

  const form = `${service.address}/events/edit?id=${id}`;
  await tab.goto(form);
  await audit(tab, "events-edit");
  const meanwhile = await tab.context().newPage();
  await meanwhile.goto(form);
  await meanwhile.getByLabel("Name").fill("Rooftop concert, in the hall");
  await meanwhile.getByLabel("Description").fill("No coat.");
  await meanwhile.getByRole("button", { name: "Save" }).click();
  await meanwhile.waitForURL(/#event-/);
  await tab.getByLabel("Name").fill("w".repeat(201));
  await tab.getByLabel("Time, in").fill("1960-01-01T00:00");
  await tab.getByRole("button", { name: "Save" }).click();
  await tab.getByRole("alert").waitFor();
  await audit(tab, "events-edited-meanwhile");
  await tab.goto(`${service.address}/events/edit?id=${theirs}`);
  await tab.getByRole("alert").waitFor();
  await audit(tab, "events-error");
});

test("production", async (t) => {
  const service = await start(t, { APP_ENV: "production" });
  const tab = await openTab(t);
  await tab.goto(`${service.address}/sessions`);
  await audit(tab, "sessions-nobody-production");
  await tab.goto(`${service.address}/docs`);
  await tab.locator(".opblock").first().waitFor();
  await audit(tab, "docs-production");
});

test("the docs, with all that opens open", async (t) => {
  const service = await start(t);
  await service.demo();
  const tab = await openTab(t);
  await tab.goto(`${service.address}/docs`);
  await tab.locator(".opblock").first().waitFor();
  await audit(tab, "docs-nobody", [["light", 1280], ["light", 390], ["dark", 1280], ["dark", 390]]); // some of it shows at one width alone
  await tab.context().addCookies(cookiesOf(await service.issue("alice"), service.address));
  await tab.reload();
  // One operation of each colour. The last answers with an error.
  for (const [operation, status, id] of [["createEvent", "200", "plaza"], ["listEvents", "200", "plaza"], ["leaveEvent", "404", "x"]]) {
    const block = tab.locator(`#operations-events-${operation}`);
    if (operation !== "listEvents") await block.locator(".opblock-summary-control").click(); // which is open
    await block.locator("[data-param-name=id] input").fill(id);
    await block.getByRole("button", { name: "Execute" }).click();
    assert.equal(await block.locator(".live-responses-table .response-col_status").nth(1).innerText(), status);
  }
  await tab.evaluate(() => document.querySelectorAll("#swagger-ui .opblock details").forEach((details) => (details.open = true)));
  await tab.locator(".models-control").click();
  // The first responses show their schemas, and the others their examples. Of each schema two levels are open.
  await tab.evaluate(() => document.querySelectorAll("[data-code='200'] [role=tab][data-name=model]").forEach((tab) => tab.click()));
  for (let level = 0; level < 2; level++) {
    await tab.evaluate(() => document.querySelectorAll(".model-box-control[aria-expanded=false]").forEach((button) => button.click()));
  }
  await audit(tab, "docs-open");
});

async function start(t, env) {
  const service = await startService(env);
  t.after(service.stop);
  return service;
}

/** A tab of a browser with cookies of its own, where axe may run. */
async function openTab(t, options) {
  const context = await openWindow(browser, { bypassCSP: true, reducedMotion: "reduce", ...options });
  t.after(() => context.close());
  return context.newPage();
}

async function signIn(tab, name) {
  await tab.getByLabel("Username").fill(name);
  await tab.getByRole("button", { name: "Sign in" }).click();
}

/** Fails the test if axe finds something on the page. Light and wide, dark and narrow will do where all shows at both widths. */
async function audit(tab, name, sizes = [["light", 1280], ["dark", 390]]) {
  await tab.evaluate(axe);
  for (const [colorScheme, width] of sizes) {
    const where = `${name}-${colorScheme}-${width}`;
    await tab.emulateMedia({ colorScheme });
    await tab.setViewportSize({ width, height: 900 });
    await tab.evaluate(async () => { // what fades in, or changes from light to dark, has no contrast
      await new Promise(requestAnimationFrame);
      const ending = document.getAnimations().filter((a) => Number.isFinite(a.effect.getComputedTiming().endTime));
      await Promise.allSettled(ending.map((a) => a.finished));
    });
    if (process.env.SCREENSHOTS) await tab.screenshot({ path: `${process.env.SCREENSHOTS}/${where}.png`, fullPage: true });
    const { violations, passes } = await tab.evaluate(() => axe.run({ rules: { "target-size": { enabled: true } } })); // of WCAG 2.2
    assert.ok(passes.length > 10, `${where}: ${passes.length} rules apply`);
    const found = violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]);
    assert.deepEqual(found, [], where);
    assert.ok(await tab.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${where} is wider than the window`);
  }
}
