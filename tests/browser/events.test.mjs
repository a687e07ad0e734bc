// The page of a user's own events, by clicking and by keys alone, with and without scripts.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { cookiesOf, openWindow, startChromium } from "./chromium.mjs";
import { engines, openProfile, startEngine } from "./engines.mjs";
import { startFront } from "./front.mjs";
import { eventually, fetchWithCookies, freePort, startService } from "./service.mjs";

let browser, service;
before(async () => {
  browser = await startChromium();
  const port = await freePort();
  const base = `http://localhost:${port}/api-of/worlds`;
  service = await startService({ BASE_URL: base, SESSIONS_PER_USER: "20" });
  service.base = base;
  service.front = await startFront(service.address, { path: "/api-of/worlds", port });
});
after(async () => {
  await browser?.close();
  await service?.front?.stop();
  await service?.stop();
});

/** A tab in which a user is signed in. It notes what the browser complains about. */
async function openTab(t, session, options) {
  const context = await openWindow(browser, { timezoneId: "Europe/Berlin", ...options });
  t.after(() => context.close());
  await context.addCookies(cookiesOf(session, service.base));
  const tab = await context.newPage();
  tab.complaints = [];
  tab.on("console", (message) => ["error", "warning"].includes(message.type()) && tab.complaints.push(message.text()));
  tab.on("pageerror", (error) => tab.complaints.push(String(error)));
  return tab;
}

const names = (tab) => tab.getByRole("heading", { level: 4 }).allInnerTexts();
const entry = (tab, name) => tab.getByRole("listitem").filter({ hasText: name });

/** An entry whose menu is open. */
async function openMenu(tab, name) {
  await entry(tab, name).getByText("More").locator("..").click();
  return entry(tab, name);
}

/** Clicks what leads to another page, and waits until that is there with its scripts. */
const follow = (tab, link) => Promise.all([tab.waitForEvent("load"), link.click()]);
const eventsOf = async (call, world) => (await (await call(`${service.address}/api/event/${world}`)).json()).events;

for (const javaScriptEnabled of [true, false]) {
  const how = javaScriptEnabled ? "with" : "without";
  test(`edit, cancel and leave ${how} scripts, and others see it`, async (t) => {
    const [plaza, harbour] = [`plaza-${how}`, `harbour-${how}`];
    const [alice, bob] = [await service.issue(`alice ${how}`), await service.issue(`bob ${how}`)];
    const [asAlice, asBob] = [fetchWithCookies(alice), fetchWithCookies(bob)];
    await service.create(asAlice, plaza, { name: "Roftop concert", description: "Bring a coat.\n\nDoors at eight." });
    await service.create(asAlice, harbour, { name: "Boat trip", scheduledAt: "2031-06-01T10:00:00Z" });
    const theirs = await service.create(asBob, plaza, { name: "Chess", scheduledAt: "2032-01-01T00:00:00Z" });
    assert.equal((await asAlice(`${service.address}/api/event/join/${theirs}`, { method: "POST" })).status, 200);

    const tab = await openTab(t, alice, { javaScriptEnabled });
    await tab.goto(`${service.base}/docs`);
    await follow(tab, tab.getByRole("navigation").getByRole("link", { name: "Events", exact: true }));
    assert.deepEqual(await names(tab), ["Roftop concert", "Boat trip", "Chess"]);
    await follow(tab, tab.getByRole("navigation").getByRole("link", { name: "Sessions" }));
    await follow(tab, tab.getByRole("link", { name: "Your events" }));
    assert.deepEqual(await entry(tab, "Roftop").locator("time").allInnerTexts(), ["Wed", "2", javaScriptEnabled ? "04:04 CET" : "03:04 UTC"]);
    await follow(tab, entry(tab, "Roftop").getByRole("link", { name: plaza }));
    assert.deepEqual(await names(tab), ["Roftop concert", "Chess"]);

    // Whoever watches the list sees the change.
    const before = await asBob(`${service.address}/api/event/${plaza}`);
    await before.text();
    const news = asBob(`${service.address}/api/event/${plaza}?wait=50`, { headers: { "If-None-Match": before.headers.get("ETag") } })
      .then(async (response) => [await response.json(), Date.now()]);
    await follow(tab, entry(tab, "Roftop").getByRole("link", { name: "Edit" }));
    await tab.getByLabel("Name").fill("Rooftop concert <3");
    assert.equal(await tab.getByLabel("Description").inputValue(), "Bring a coat.\n\nDoors at eight.");
    assert.equal(await tab.getByText(/^Time, in/).innerText(), `Time, in ${javaScriptEnabled ? "Europe/Berlin" : "UTC"}`);
    assert.equal(await tab.getByLabel("Time, in").inputValue(), javaScriptEnabled ? "2030-01-02T04:04" : "2030-01-02T03:04");
    const pressed = Date.now();
    await tab.getByRole("button", { name: "Save" }).click();
    const [list, seen] = await news;
    t.diagnostic(`${seen - pressed} ms from the press of the button until others see it`);
    const { name, description, scheduledAt } = list.events[0];
    assert.deepEqual([name, description, scheduledAt], ["Rooftop concert <3", "Bring a coat.\n\nDoors at eight.", "2030-01-02T03:04:05.000Z"]);
    await tab.waitForURL(/\/api-of\/worlds\/events\?world=plaza-[a-z]+#event-/);

    await follow(tab, tab.getByRole("link", { name: "Show all worlds" }));
    await follow(tab, entry(tab, "Boat trip").getByRole("link", { name: "Edit" }));
    await tab.getByLabel("Time, in").fill("2031-07-01T10:30");
    await tab.getByRole("button", { name: "Save" }).click();
    await tab.waitForURL(/#event-/);
    assert.equal((await eventsOf(asBob, harbour))[0].scheduledAt, javaScriptEnabled ? "2031-07-01T08:30:00.000Z" : "2031-07-01T10:30:00.000Z");

    await follow(tab, (await openMenu(tab, "Boat trip")).getByRole("link", { name: "Cancel the event" }));
    await follow(tab, tab.getByRole("link", { name: "Keep it" }));
    await follow(tab, (await openMenu(tab, "Boat trip")).getByRole("link", { name: "Cancel the event" }));
    await tab.getByRole("button", { name: "Cancel the event" }).click();
    await tab.waitForURL(`${service.base}/events`);
    await (await openMenu(tab, "Chess")).getByRole("button", { name: "Leave" }).click();
    await entry(tab, "Chess").waitFor({ state: "detached" });
    assert.deepEqual(await names(tab), ["Rooftop concert <3"]);
    assert.deepEqual(await eventsOf(asBob, harbour), []);
    assert.deepEqual(tab.complaints, []);
  });
}

test("all pages have the days and months of the reader", async (t) => {
  const grace = await service.issue("grace");
  const call = fetchWithCookies(grace);
  for (const scheduledAt of ["2031-01-31T22:30:00Z", "2031-01-31T23:30:00Z", "2031-02-28T23:30:00Z"]) await service.create(call, "night", { name: scheduledAt, scheduledAt });
  const months = (tab) => tab.locator(".months").first().evaluate((list) => [...list.children].map((child) => child.querySelectorAll("li").length || child.textContent));
  const berlin = await openTab(t, grace);
  const kiritimati = await openTab(t, grace, { timezoneId: "Pacific/Kiritimati" });
  const plain = await openTab(t, grace, { javaScriptEnabled: false });
  for (const tab of [berlin, kiritimati, plain]) await tab.goto(`${service.base}/events`);
  assert.deepEqual(await months(berlin), ["January 2031", 1, "February 2031", 1, "March 2031", 1]);
  assert.deepEqual(await months(kiritimati), ["February 2031", 2, "March 2031", 1]);
  assert.deepEqual(await names(berlin), await names(plain));
  assert.deepEqual(await plain.locator(".months h3").first().innerText(), "January 2031");
  assert.deepEqual(await entry(berlin, "2031-02-28").locator("time").allInnerTexts(), ["Sat", "1", "00:30 CET"]);
  for (const page of ["sessions", `events/cancel?id=${(await eventsOf(call, "night"))[0].id}`]) {
    for (const [tab, zone] of [[berlin, /(CET|CEST)$/], [kiritimati, /GMT\+14$/], [plain, /UTC$/]]) {
      await tab.goto(`${service.base}/${page}`);
      for (const time of await tab.locator("time").allInnerTexts()) assert.match(time, zone);
    }
  }
  await berlin.goto(`${service.base}/events`);
  await berlin.getByLabel("World").fill("day");
  await berlin.getByRole("button", { name: "Filter" }).click();
  await berlin.getByText("Only those in the world day.").waitFor();
  assert.deepEqual(await names(berlin), []);
  assert.deepEqual([...berlin.complaints, ...plain.complaints], []);
});

test("an event goes to a calendar, and an address that is none says so", async (t) => {
  const heidi = await service.issue("heidi");
  await service.create(fetchWithCookies(heidi), "plaza", { name: "Chess; 🎉" });
  const tab = await openTab(t, heidi, { permissions: ["clipboard-read", "clipboard-write"] });
  await tab.goto(`${service.base}/events`);
  const downloads = tab.waitForEvent("download");
  await (await openMenu(tab, "Chess")).getByRole("link", { name: "Add to a calendar" }).click();
  const download = await downloads;
  assert.equal(download.suggestedFilename(), "event.ics");
  assert.match(await readFile(await download.path(), "utf8"), /^BEGIN:VCALENDAR\r\n[^]*\nSUMMARY:Chess\\; 🎉\r\n/);

  assert.equal((await tab.goto(`${service.base}/nothing`)).status(), 404);
  await tab.getByRole("heading", { name: "There is no such page" }).waitFor();
  await tab.getByRole("button", { name: "Copy" }).click();
  await tab.getByText("Copied").waitFor();
  assert.equal(await tab.evaluate(() => navigator.clipboard.readText()), await tab.locator("#request").innerText());
  await tab.goto(`${service.base}/sign-out`);
  await tab.getByRole("main").getByRole("button", { name: "Sign out" }).click();
  await tab.waitForURL(`${service.base}/sign-in`);
  assert.deepEqual(tab.complaints.filter((text) => !/40[45]/.test(text)), []);
});

test("two tabs that edit one event, by keys alone", async (t) => {
  const carol = await service.issue("carol");
  const call = fetchWithCookies(carol);
  const id = await service.create(call, "club", { name: "Chess" });
  const [first, second] = [await openTab(t, carol), await openTab(t, carol)];
  const press = (tab, key) => tab.keyboard.press(key);
  /** Moves on by Tab until something is focused. */
  const tabTo = async (tab, what) => {
    const focused = () => tab.evaluate(() => document.activeElement.innerText || document.activeElement.id);
    for (let n = 0; await focused() !== what; n++) {
      assert.ok(n < 40, `${what} is not reached`);
      await press(tab, "Tab");
    }
  };
  for (const tab of [first, second]) {
    await tab.goto(`${service.base}/events`);
    await tabTo(tab, "Edit");
    await press(tab, "Enter");
    await tab.waitForURL(/edit/);
    await tabTo(tab, "name");
    await press(tab, "End");
  }
  await first.keyboard.type(" for all");
  await press(first, "Enter");
  await first.waitForURL(/#event-/);
  await second.keyboard.type("!");
  await press(second, "Tab");
  await second.keyboard.type("Bring a board.");
  await tabTo(second, "Save");
  await press(second, "Enter");
  await second.getByRole("alert").filter({ hasText: "edited meanwhile" }).waitFor();
  assert.equal(await second.getByLabel("Name").inputValue(), "Chess!");
  assert.equal(await second.getByLabel("Description").inputValue(), "Bring a board.");
  assert.deepEqual(await second.getByText(/^Now: /).allInnerTexts(), ["Now: Chess for all", "Now: nothing"]);
  await tabTo(second, "Save");
  await press(second, "Enter");
  await second.waitForURL(/#event-/);
  assert.deepEqual(await names(second), ["Chess!"]);
  const [event] = await eventsOf(call, "club");
  assert.deepEqual([event.id, event.description, event.scheduledAt], [id, "Bring a board.", "2030-01-02T03:04:05.000Z"]);
  await tabTo(second, "More");
  await press(second, "Enter");
  await tabTo(second, "Cancel the event");
  await press(second, "Enter");
  await second.waitForURL(/cancel/);
  await tabTo(second, "Cancel the event");
  await press(second, "Enter");
  await second.waitForURL(`${service.base}/events`);
  assert.deepEqual(await eventsOf(call, "club"), []);
  // A conflict is a 409, which browsers note as a failed load.
  assert.deepEqual([first, second].flatMap((tab) => tab.complaints).filter((text) => !text.includes("409")), []);
});

test("a time stays the same where clocks are put back, and where a day is another", async (t) => {
  const dave = await service.issue("dave");
  const call = fetchWithCookies(dave);
  for (const [timezoneId, ...times] of [
    ["Europe/Berlin", "2030-10-27T00:30:15.250Z", "2030-10-27T01:30:15.250Z", "9999-12-31T23:59:59.999Z"], // the first two are both at 02:30
    ["America/St_Johns", "1970-01-01T00:00:00.000Z"],
  ]) {
    const tab = await openTab(t, dave, { timezoneId });
    for (const scheduledAt of times) {
      const id = await service.create(call, "clock", { name: "n", scheduledAt });
      await tab.goto(`${service.base}/events/edit?id=${id}`);
      await tab.getByLabel("Name").fill(timezoneId);
      await tab.getByRole("button", { name: "Save" }).click();
      await tab.waitForURL(/#event-/);
      const event = (await eventsOf(call, "clock")).find((event) => event.id === id);
      assert.deepEqual([event.name, event.scheduledAt], [timezoneId, scheduledAt]);
    }
  }
});

test("of a time that there is twice the one is meant that is as far from UTC as the event was", async (t) => {
  const dave = await service.issue("dave");
  const call = fetchWithCookies(dave);
  for (const [timezoneId, scheduledAt, shown, typed, want] of [
    ["America/New_York", "2026-11-01T06:30:00.000Z", "2026-11-01T01:30", "2026-11-01T01:45", "2026-11-01T06:45:00.000Z"],
    ["America/New_York", "2026-11-01T05:30:00.000Z", "2026-11-01T01:30", "2026-11-01T01:45", "2026-11-01T05:45:00.000Z"],
    ["America/New_York", "2026-11-01T05:30:00.000Z", "2026-11-01T01:30", "2026-11-01T03:30", "2026-11-01T08:30:00.000Z"],
    ["Europe/Berlin", "2030-10-27T01:30:00.000Z", "2030-10-27T02:30", "2030-10-27T02:00", "2030-10-27T01:00:00.000Z"],
    ["Australia/Lord_Howe", "2030-04-06T15:15:00.000Z", "2030-04-07T01:45", "2030-04-07T01:50", "2030-04-06T15:20:00.000Z"], // by half an hour
    ["Antarctica/Troll", "2030-10-27T02:30:00.000Z", "2030-10-27T02:30", "2030-10-27T02:40", "2030-10-27T02:40:00.000Z"], // by two
    ["Europe/Berlin", "2030-07-01T10:00:00.000Z", "2030-07-01T12:00", "2030-12-01T12:00", "2030-12-01T11:00:00.000Z"],
  ]) {
    const tab = await openTab(t, dave, { timezoneId });
    const id = await service.create(call, "twice", { name: "n", scheduledAt });
    await tab.goto(`${service.base}/events/edit?id=${id}`);
    const field = tab.locator("[name=scheduledAt]");
    assert.equal((await field.inputValue()).slice(0, shown.length), shown, timezoneId);
    await field.fill(typed);
    await tab.getByRole("button", { name: "Save" }).click();
    await tab.waitForURL(/#event-/);
    const event = (await eventsOf(call, "twice")).find((event) => event.id === id);
    assert.equal(event.scheduledAt, want, `${timezoneId} ${scheduledAt}`);
  }
});

test("what is wrong is said, and what was typed stays", async (t) => {
  const erin = await service.issue("erin");
  const call = fetchWithCookies(erin);
  const id = await service.create(call, "rules");
  const tab = await openTab(t, erin);
  await tab.goto(`${service.base}/events/edit?id=${id}`);
  await tab.getByLabel("Name").fill("𝄞".repeat(201));
  await tab.getByLabel("Description").fill("\n\nline\n");
  await tab.getByLabel("Time, in").fill("1969-12-31T12:00");
  await tab.getByRole("button", { name: "Save" }).click();
  await tab.getByRole("alert").waitFor();
  assert.equal(await tab.getByLabel("Name").inputValue(), "𝄞".repeat(201));
  assert.equal(await tab.getByLabel("Description").inputValue(), "\n\nline\n");
  assert.equal(await tab.getByLabel("Time, in").inputValue(), "1969-12-31T12:00");
  assert.equal(await tab.evaluate(() => document.activeElement.role), "alert");
  assert.equal(await tab.getByText("must be 1 to 200 characters").count(), 1);
  assert.equal(await tab.getByText("in UTC within the years 1970 to 9999").count(), 1);
  await tab.getByLabel("Name").fill("n");
  await tab.getByLabel("Time, in").fill("2030-05-05T12:00");
  await tab.getByRole("button", { name: "Save" }).click();
  await tab.waitForURL(/#event-/);
  const [event] = await eventsOf(call, "rules");
  assert.deepEqual([event.name, event.description, event.scheduledAt], ["n", "\n\nline\n", "2030-05-05T10:00:00.000Z"]);
});

const firefox = engines.find(({ name }) => name === "firefox");
test("the form takes a time in Firefox", { skip: firefox.skip }, async (t) => {
  const frank = await service.issue("frank");
  const call = fetchWithCookies(frank);
  const id = await service.create(call, "match", { name: "Chess" });
  const engine = await startEngine("firefox", { env: { ...process.env, TZ: "Asia/Kolkata" } });
  t.after(() => engine.close());
  const profile = await openProfile(engine, frank, service.base);
  const [tab] = await profile.openTabs([`${service.base}/events/edit?id=${id}`]);
  assert.equal(await tab.$eval("#zone", (zone) => zone.textContent), await tab.evaluate(() => Intl.DateTimeFormat().resolvedOptions().timeZone));
  assert.equal(await tab.$eval("#time", (input) => input.value), "2030-01-02T08:34");
  // Typing goes by the locale of the browser, so the values are set as a picker does.
  await tab.$eval("#time", (input) => (input.value = "2030-01-02T20:00"));
  await tab.$eval("#description", (input) => (input.value = "one\ntwo"));
  await tab.$eval("form[action$=edit] button", (button) => button.click());
  await eventually("the event is edited", async () => {
    const [event] = await eventsOf(call, "match");
    return event.scheduledAt === "2030-01-02T14:30:00.000Z" && event.description === "one\ntwo";
  });
  await tab.waitForSelector("li time");
  assert.match(await tab.$eval("li [data-show=hour]", (time) => time.textContent), /^20:00 /);
});
