// Pages of other origins, in Chromium and the usual way in Firefox, over TLS and with a service in production mode, whose cookies are Secure and SameSite=None.
import assert from "node:assert/strict";
import { after, before, beforeEach, describe, test } from "node:test";
import { cookiesOf, openWindow, startChromium, startProfile } from "./chromium.mjs";
import { becomes, engines, openProfile, press, startEngine } from "./engines.mjs";
import { startFront } from "./front.mjs";
import { eventually, fetchWithCookies, freePort, startService } from "./service.mjs";
import { makeCertificate } from "./tls.mjs";

let service, fronts, browser, profile, session, eventId;
let api, allowed, sameSite, other; // origins; allowed and other are on sites of their own
let requests; // what reached the API

before(async () => {
  const tls = await makeCertificate("api.one.test", "app.one.test", "app.two.test", "evil.three.test");
  const [apiPort, pagePort] = [await freePort(), await freePort()];
  api = `https://api.one.test:${apiPort}`;
  allowed = `https://app.two.test:${pagePort}`;
  sameSite = `https://app.one.test:${pagePort}`;
  other = `https://evil.three.test:${pagePort}`;
  service = await startService({ APP_ENV: "production", BASE_URL: api, ALLOWED_ORIGINS: `${allowed},${sameSite}` });
  fronts = [
    await startFront(service.address, { tls, port: apiPort, hold: (request) => void requests.push(request) }),
    await startFront(service.address, { tls, port: pagePort, connect: api }),
  ];
  const flags = [
    "--host-resolver-rules=MAP *.test 127.0.0.1",
    `--ignore-certificate-errors-spki-list=${tls.pin}`,
  ];
  browser = await startChromium(...flags);
  profile = await startProfile(...flags);
  await service.addUser("alice");
  await service.addUser("bob");
  const bob = fetchWithCookies(await service.issue("bob"));
  eventId = await service.create(bob, "plaza");
});
after(async () => {
  await browser?.close();
  await profile?.close();
  for (const front of fronts ?? []) await front.stop();
  await service?.stop();
});
beforeEach(async () => {
  requests = [];
  session = await service.issue("alice");
});

/** A tab of a browser that is signed in, on this page. */
async function tabAt(url, { context = profile.context, cookies = session } = {}) {
  await context.addCookies(cookiesOf(cookies, api).map((cookie) => ({ ...cookie, secure: true, sameSite: "None" })));
  const tab = await context.newPage();
  await tab.goto(url);
  return tab;
}

/** Who takes part, as the service tells alice. */
async function names() {
  const list = await fetchWithCookies(session)(`${service.address}/api/event/plaza`);
  return (await list.json()).events[0].RSVPs.map((rsvp) => rsvp.user.username);
}

test("a page of an allowed origin on another site works", () => useThePage(profile.context, allowed));

test("a page of an allowed origin on the same site works even where third-party cookies are blocked", async () =>
  useThePage(await openWindow(browser), sameSite));

/** Session, refresh, list, join, leave, sign out. */
async function useThePage(context, origin) {
  const expired = service.expired(session);
  const tab = await tabAt(`${origin}/page/?world=plaza&api=${api}`, { context, cookies: expired });
  await tab.getByText("Signed in as alice").waitFor();
  const cookies = await context.cookies(api);
  assert.equal(cookies.length, 2);
  for (const cookie of cookies) {
    assert.notEqual(cookie.value, expired[cookie.name]); // refreshed
    assert.deepEqual([cookie.secure, cookie.httpOnly, cookie.sameSite], [true, true, "None"]);
  }
  await tab.getByRole("button", { name: "Join" }).click();
  await tab.getByRole("listitem").getByText("alice").waitFor();
  await tab.getByRole("button", { name: "Leave" }).click();
  await tab.getByRole("listitem").getByText("alice").waitFor({ state: "detached" });
  await tab.getByRole("button", { name: "Sign out" }).click();
  await tab.getByText("Not signed in").waitFor();
  assert.deepEqual(await context.cookies(api), []);
}

const firefox = engines.find(({ name }) => name === "firefox");
describe("firefox", { skip: firefox.skip }, () => {
  const browsers = new Map(); // by network.cookie.cookieBehavior, since starting one takes long
  after(() => Promise.all([...browsers.values()].map((browser) => browser.close())));
  const ownDefault = 5, allowAll = 0;
  for (const [what, cookieBehavior, origin, works] of [
    ["on the same site works", ownDefault, () => sameSite, true],
    ["on another site works where third-party cookies are allowed", allowAll, () => allowed, true],
    ["on another site is nobody's otherwise, since cookies are kept apart by site", ownDefault, () => allowed, false],
  ]) {
    test(`a page of an allowed origin ${what}`, async () => {
      const preferences = {
        "network.dns.localDomains": [api, allowed, sameSite].map((url) => new URL(url).hostname).join(),
        "network.cookie.cookieBehavior": cookieBehavior,
      };
      const browser = browsers.get(cookieBehavior) ?? await startEngine("firefox", { acceptInsecureCerts: true, preferences });
      browsers.set(cookieBehavior, browser);
      const expired = service.expired(session);
      const profile = await openProfile(browser, expired, api, { secure: true, sameSite: "None" });
      const [tab] = await profile.openTabs([`${origin()}/page/?world=plaza&api=${api}`]);
      const says = (text) => becomes(tab, (text) => document.body.innerText.includes(text), text);
      if (!works) {
        await says("Not signed in");
        assert.equal(await profile.cookie("token"), expired.token);
        return;
      }
      await says("Signed in as alice");
      assert.notEqual(await profile.cookie("token"), expired.token);
      const takesPart = (want) => becomes(
        tab, (want) => [...document.querySelectorAll("li")].some((name) => name.textContent === "alice") === want, want);
      await press(tab, "Join");
      await takesPart(true);
      await press(tab, "Leave");
      await takesPart(false);
      await press(tab, "Sign out");
      await says("Not signed in");
      // Firefox was seen to list a cookie for a moment longer than the page shows a session.
      await eventually("no cookie is left", async () => (await profile.cookies()).length === 0);
    });
  }
});

test("an allowed page reads errors and the exposed headers", async () => {
  const tab = await tabAt(`${allowed}/page/?world=plaza&api=${api}`);
  await tab.getByText("Signed in as alice").waitFor();
  const seen = await tab.evaluate(async () => {
    const { createEvent, getSession, joinEvent, listEvents } = await import("../client/index.js");
    const body = { name: "Boat trip", description: "", scheduledAt: "2030-01-02T03:04:05Z" };
    const read = ({ data, error, response }, ...headers) => ({
      status: response.status, code: error?.code, fields: error?.fields && Object.keys(error.fields),
      data: data?.id && data.id === response.headers.get("Event-Id") ? { success: data.success } : data,
      sameId: error && error.requestId === response.headers.get("X-Request-Id"),
      headers: headers.filter((name) => response.headers.get(name)),
    });
    return [
      read(await joinEvent({ path: { id: "nothing" } })),
      read(await createEvent({ path: { id: "harbour" }, body: { ...body, name: "" } })),
      read(await createEvent({ path: { id: "harbour" }, body }), "Event-Id"),
      read(await createEvent({ path: { id: "harbour" }, body }), "Event-Id"),
      read(await getSession(), "Session-User", "Session-Expires"),
      read(await listEvents({ path: { id: "empty" } }), "ETag"),
      read(await listEvents({ path: { id: "harbour" }, query: { limit: 1 } }), "ETag", "Link").headers,
      read(await listEvents({ path: { id: "plaza" }, credentials: "omit" })),
    ];
  });
  const success = (data, ...headers) => ({ status: 200, data, headers });
  assert.deepEqual(JSON.parse(JSON.stringify(seen)), [
    { status: 404, code: "event_not_found", sameId: true, headers: [] },
    { status: 400, code: "validation_failed", fields: ["name"], sameId: true, headers: [] },
    success({ success: true }, "Event-Id"),
    success({ success: true }, "Event-Id"),
    success({ authenticated: true }, "Session-User", "Session-Expires"),
    success({ events: [] }, "ETag"),
    ["ETag", "Link"],
    { status: 401, code: "no_token", sameId: true, headers: [] },
  ]);
});

test("a page of another origin reads nothing, joins nothing and spends no refresh token", async () => {
  const spent = await service.refreshes("refreshed");
  const tab = await tabAt(`${other}/page/nothing`); // no page, so no policy of its own
  const outcomes = await tab.evaluate(async ([api, id]) => {
    const call = (path, init) => fetch(api + path, { credentials: "include", ...init })
      .then((response) => response.type, (error) => error.name);
    return [
      await call("/api/event/plaza"),
      await call("/api/auth/session"),
      await call("/api/auth/refresh"),
      await call("/api/auth/refresh", { mode: "no-cors" }),
      await call(`/api/event/join/${id}`, { method: "POST" }),
      await call(`/api/event/join/${id}`, { method: "POST", mode: "no-cors" }),
      await call(`/api/event/${id}`, { method: "DELETE" }),
      await call("/sign-out", { method: "POST", mode: "no-cors" }),
    ];
  }, [api, eventId]);
  assert.deepEqual(outcomes, Array(8).fill("TypeError"));
  const carriers = requests.filter((request) => request.method !== "OPTIONS");
  assert.ok(carriers.length >= 7 && carriers.every((request) => request.headers.cookie?.includes("refreshToken=")),
    "the cookies were sent, so it is the service that refused");
  assert.equal(await service.refreshes("refreshed"), spent);
  assert.deepEqual(await names(), ["bob"]);
});

test("a form on another site cannot join", async () => {
  const tab = await tabAt(`${other}/page/nothing`);
  for (const type of ["application/x-www-form-urlencoded", "text/plain"]) {
    await tab.goto(`${other}/page/nothing`);
    const [answer] = await Promise.all([
      tab.waitForNavigation(),
      tab.evaluate(([action, enctype]) => {
        const form = Object.assign(document.createElement("form"), { action, enctype, method: "post" });
        document.body.append(form);
        form.submit();
      }, [`${api}/api/event/join/${eventId}`, type]),
    ]);
    assert.equal(answer.status(), 403);
    assert.equal((await answer.json()).code, "cross_origin");
  }
  assert.ok(requests.every((request) => request.headers.cookie?.includes("token=")));
  assert.deepEqual(await names(), ["bob"]);
});

test("a link on another site cannot refresh", async () => {
  const spent = await service.refreshes("refreshed");
  const tab = await tabAt(`${other}/page/nothing`);
  const [answer] = await Promise.all([
    tab.waitForNavigation(),
    tab.evaluate((url) => location.assign(url), `${api}/api/auth/refresh`),
  ]);
  assert.equal(answer.status(), 403);
  assert.equal(await service.refreshes("refreshed"), spent);
});
