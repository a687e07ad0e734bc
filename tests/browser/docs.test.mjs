// Swagger UI and the sign-in page, by clicking, under the strict Content-Security-Policy.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { cookiesOf, openWindow, startChromium } from "./chromium.mjs";
import { startFront } from "./front.mjs";
import { eventually, fetchWithCookies, freePort, startService } from "./service.mjs";

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
  for (const part of [".live-responses-table", ".calls", ".responses-wrapper", ".parameters-container"]) {
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
  const [text, code] = await block.evaluate((block) => [".opblock-description-wrapper", ".calls"].map((part) => block.querySelector(part).getBoundingClientRect().toJSON()));
  assert.ok(text.y >= 0 && text.y < 200, "the operation is in view");
  assert.ok(code.x >= text.x + text.width && Math.abs(code.y - text.y) < 50, "the code stands beside the text");
  await block.locator("details.headers-of:not([open]) summary").first().click();
  await block.locator("details[open] table.headers").first().waitFor();
  await tab.locator("#operations-events-listEvents .execute").focus();
  await tab.keyboard.press("Enter");
  const [status, { events }] = await answerOf(tab.locator("#operations-events-listEvents"));
  assert.equal(status, 200);
  assert.ok(events.length > 1, `${events.length} events of plaza`);
  assert.deepEqual(complaints, []);
});

test("each operation has a call for curl, fetch, the TypeScript client and Go, which work", async (t) => {
  const { service, tab, run } = await openWithCalls(t, { SESSIONS_PER_USER: "30" });
  await service.demo();
  const first = tab.locator("#operations-events-listEvents");
  for (const [tag, operation] of [["events", "listEvents"], ["events", "createEvent"], ["events", "joinEvent"], ["events", "leaveEvent"], ["auth", "getSession"], ["auth", "refreshSession"]]) {
    const block = await open(tab, tag, operation);
    for (const executed of [false, true]) {
      if (executed) {
        await block.getByRole("button", { name: "Execute" }).click();
        await answerOf(block);
      }
      for (const language of Object.keys(run)) {
        await block.getByRole("radio", { name: language, exact: true }).check();
        await block.getByRole("button", { name: `Copy for ${language}` }).click();
        await block.getByText("Copied").waitFor();
        const text = await tab.evaluate(() => navigator.clipboard.readText());
        assert.equal(text, await block.locator(".calls pre").innerText());
        assert.ok(await first.getByRole("radio", { name: language, exact: true }).isChecked(), "the language is that of all operations");
        await run[language](text);
      }
    }
  }
});

test("calls have whatever somebody types", async (t) => {
  const { service, tab, run } = await openWithCalls(t, { SESSIONS_PER_USER: "30" });
  const name = "O'Neill & \"Zoë\" `$HOME` ${1+1} \\\\ %s </script> 夜 😀 \u2028 '\\''";
  const block = await open(tab, "events", "createEvent");
  await block.locator("[data-param-name=id] input").fill("Ann's \"café\"/100% 😀");
  await block.locator("[data-param-name=Idempotency-Key] input").fill("it's\"one\"\\key");
  await block.locator("textarea").fill(JSON.stringify({ name, description: "a\nb\tc", scheduledAt: "2030-01-02T03:04:05Z", "not-a-name": { "": [1] } }, null, 2));
  await block.getByRole("button", { name: "Execute" }).click();
  assert.deepEqual(await answerOf(block), [200, { success: true }]);
  for (const [language, runIt] of Object.entries(run)) {
    await block.getByRole("radio", { name: language, exact: true }).check();
    await runIt(await block.locator(".calls pre").innerText());
  }
  const bob = fetchWithCookies(await service.issue("bob"));
  const { events } = await (await bob(`${service.address}/api/event/${encodeURIComponent("Ann's \"café\"/100% 😀")}`)).json();
  assert.deepEqual(events.map((event) => [event.name, event.description, event.RSVPs[0].user.username]).sort(),
    [[name, "a\nb\tc", "alice"], [name, "a\nb\tc", "bob"]]); // of each user the later ones have the key of the first

  await block.locator("textarea").fill("no 'JSON' \"at\" `all`");
  await block.getByRole("button", { name: "Execute" }).click();
  await block.getByText("malformed_json").first().waitFor();
  for (const [language, runIt] of Object.entries(run)) {
    await block.getByRole("radio", { name: language, exact: true }).check();
    if (language !== "TypeScript") await runIt(await block.locator(".calls pre").innerText(), 400); // the client sends it as a JSON text
  }
});

test("the page opens with the first call, and the index leads to all else", async (t) => {
  const service = await startService();
  t.after(service.stop);
  const { context, tab, complaints } = await openTab();
  t.after(() => context.close());
  await tab.goto(`${service.address}/docs`);
  await tab.locator("#operations-events-listEvents .execute").waitFor();
  assert.equal(await tab.locator(".opblock.is-open").count(), 1);
  assert.equal(await tab.locator(".opblock").first().getAttribute("id"), "operations-events-listEvents");
  assert.equal(new URL(tab.url()).hash, "");

  const index = tab.getByRole("navigation", { name: "Index" });
  const links = () => index.getByRole("link").allInnerTexts();
  const current = () => index.locator("[aria-current=true]").innerText();
  assert.deepEqual(await links(), ["listEvents", "createEvent", "joinEvent", "leaveEvent", "getSession", "refreshSession",
    "Schemas", "Errors by code", "Sessions", "Errors", "Browsers", "Worlds of other systems", "Compatibility"]);
  for (const [typed, found] of [["post", ["createEvent", "joinEvent"]], ["/auth/", ["getSession", "refreshSession"]], ["LEAVEE", ["leaveEvent"]],
    ["rsvps", ["listEvents"]], ["compat", ["Compatibility"]], ["xyz", []]]) {
    await index.getByLabel("Filter").fill(typed);
    assert.deepEqual(await links(), found, typed);
  }
  await index.getByLabel("Filter").fill("");

  for (const [name, hash, focused] of [["leaveEvent", "#/events/leaveEvent", "DELETE"], ["Errors", "#/all/Errors", "Errors"], ["Schemas", "#/all/Schemas", "Schemas"]]) {
    await index.locator("a", { hasText: new RegExp(`^${name}$`) }).click();
    await tab.locator(":focus", { hasText: focused }).waitFor();
    await eventually(`${name} is marked`, async () => await current() === name);
    assert.equal(new URL(tab.url()).hash, hash);
    assert.ok((await index.boundingBox()).y >= 0, "the index stays");
  }
  await tab.locator("#operations-events-leaveEvent .execute").waitFor();

  await tab.goto("about:blank");
  await tab.goto(`${service.address}/docs#/events/joinEvent`);
  await tab.locator("#operations-events-joinEvent .execute").waitFor();
  assert.equal(await tab.locator(".opblock.is-open").count(), 1);
  assert.deepEqual(complaints, []);
});

test("of the responses one status is shown", async (t) => {
  const service = await startService();
  t.after(service.stop);
  const { context, tab } = await openTab();
  t.after(() => context.close());
  await context.addCookies(cookiesOf(await service.issue("alice"), service.address));
  await tab.goto(`${service.address}/docs`);
  const block = await open(tab, "events", "leaveEvent");
  const shown = () => block.locator(".response[data-code]").evaluateAll((all) => all.map((one) => one.dataset.code));
  const contract = await (await fetch(`${service.address}/openapi.json`)).json();
  const tabs = block.getByRole("radiogroup", { name: "Status" });
  assert.deepEqual(await tabs.locator("label").allInnerTexts(), Object.keys(contract.paths["/api/event/{id}"].delete.responses));
  assert.deepEqual(await shown(), ["200"]);
  await block.locator("[data-param-name=id] input").fill("x");
  await block.getByRole("button", { name: "Execute" }).click();
  assert.equal((await answerOf(block))[0], 404);
  assert.deepEqual(await shown(), ["404"]); // what was answered
  await tabs.getByRole("radio", { name: "404" }).press("ArrowLeft");
  assert.deepEqual(await shown(), ["403"]);
});

test("on a telephone Execute is on one screen with the top of its operation", async (t) => {
  const service = await startService();
  t.after(service.stop);
  const { context, tab } = await openTab({ viewport: { width: 390, height: 844 } });
  t.after(() => context.close());
  await tab.goto(`${service.address}/docs`);
  for (const [tag, operation] of [["events", "listEvents"], ["events", "createEvent"], ["events", "leaveEvent"], ["auth", "getSession"]]) {
    const block = await open(tab, tag, operation);
    await block.locator(".execute").waitFor();
    const [top, bottom] = await block.evaluate((block) => [block.getBoundingClientRect().top, block.querySelector(".execute").getBoundingClientRect().bottom]);
    assert.ok(bottom - top < 844, `${operation}: ${bottom - top}`);
    for (const cell of await block.locator(".parameters-col_name").all()) {
      assert.ok(await cell.evaluate((cell) => cell.scrollWidth <= cell.clientWidth), `${operation}: a name or type runs into the input`);
    }
  }
  const about = tab.locator("#operations-events-listEvents [data-param-name=limit] summary");
  await about.click();
  await tab.getByText("The largest number of events in the response.").waitFor();
  assert.equal(await about.getAttribute("aria-label"), "About limit");
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

/**
 * A tab on /docs below a path, where alice is signed in, and what runs a shown call in each language, which is answered with a status. In a
 * shell and in Go the user is bob, who has new cookies for each, and in the tab alice.
 */
async function openWithCalls(t, env) {
  const path = "/api-of/worlds";
  const port = await freePort();
  const base = `http://localhost:${port}${path}`;
  const service = await startService({ BASE_URL: base, ...env });
  t.after(service.stop);
  const front = await startFront(service.address, { port, path });
  t.after(front.stop);
  const { context, tab } = await openTab({ bypassCSP: true, permissions: ["clipboard-read", "clipboard-write"] }); // to run what is shown
  t.after(() => context.close());
  const folder = await mkdtemp(join(tmpdir(), "worldevents-go-"));
  t.after(() => rm(folder, { recursive: true }));
  await tab.goto(`${base}/sign-in`);
  await tab.getByLabel("Username").fill("alice");
  await tab.keyboard.press("Enter");
  await tab.waitForURL(`${base}/docs`);
  let resolved;
  await tab.exposeFunction("resolved", (...result) => resolved(result));

  const cookies = async () => {
    const { token, refreshToken } = await service.issue("bob");
    return `token=${token}; refreshToken=${refreshToken}`;
  };
  const inTab = (content) => new Promise((resolve, reject) => {
    resolved = resolve;
    tab.once("pageerror", reject);
    tab.addScriptTag({ type: "module", content }).catch(reject);
  });
  const run = {
    async curl(text, status = 200) {
      assert.ok(text.startsWith("C=$(./bin/worldevents session issue bob)\n"), text);
      const { stdout } = await promisify(execFile)("bash", ["-c", text.replace(/\$\(.*\)/, `'${await cookies()}'`)]);
      assert.match(stdout, new RegExp(`^HTTP/1.1 ${status} [^]*\r\n\r\n{`), text);
    },
    async fetch(text, status = 200) {
      const result = await inTab(`const console = { log: resolved };\n${text}`);
      assert.equal(result[0], status, `${text}\n${result}`);
    },
    async TypeScript(text) {
      const [{ data, error }] = await inTab(`${text.replace('"worldevents-client"', '"/client/index.js"')}\nresolved({ data, error });`);
      assert.ok(data, `${text}\n${JSON.stringify(error)}`);
    },
    async Go(text, status = 200) {
      assert.ok(text.startsWith("// C=$(./bin/worldevents session issue bob) go run main.go\n"), text);
      await writeFile(join(folder, "main.go"), `${text}\n`);
      const go = (program, ...args) => promisify(execFile)(program, args, { cwd: folder, env: { ...process.env, GOFLAGS: "-trimpath", C } });
      const C = await cookies();
      assert.equal((await go("gofmt", "-d", "main.go")).stdout, "");
      const { stdout, stderr } = await go("go", "run", "main.go");
      assert.match(stderr, new RegExp(` ${status} `), text);
      assert.match(stdout, /^{/, text);
    },
  };
  return { service, tab, run };
}

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

/** Opens an operation, unless it is open. */
async function open(tab, tag, operation) {
  const block = tab.locator(`#operations-${tag}-${operation}`);
  const control = block.locator(".opblock-summary-control");
  if (await control.getAttribute("aria-expanded") === "false") await control.click();
  return block;
}

/** Opens an operation, presses Execute with the examples as they stand, and returns the status and body shown. */
async function execute(tab, tag, operation) {
  const block = await open(tab, tag, operation);
  await block.getByRole("button", { name: "Execute" }).click();
  return answerOf(block);
}

/** The status and the body of the response that an operation shows. */
async function answerOf(block) {
  const answer = block.locator(".live-responses-table .response");
  const status = Number(await answer.locator(".response-col_status").first().innerText());
  return [status, JSON.parse(await answer.locator(".response-col_description .highlight-code code").first().innerText())];
}
