// guardRequest against the real service: who is signed in, what is refreshed and how often, and what it does where the service cannot say.
import assert from "node:assert/strict";
import { once } from "node:events";
import http from "node:http";
import { after, before, beforeEach, test } from "node:test";
import { CallError, guardRequest, listEvents, serverClient } from "worldevents-client";
import { fetchWithCookies, startService } from "../../../tests/browser/service.mjs";

const path = { id: "plaza" };
const noCache = ["Cache-Control", "private, no-cache"];
const cookieOf = ({ token, refreshToken }) => `token=${token}; refreshToken=${refreshToken}`;
let service, refreshed, refused;

before(async () => (service = await startService({ SESSIONS_PER_USER: "100" })));
after(() => service?.stop());
beforeEach(async () => ([refreshed, refused] = [await service.refreshes("refreshed"), await service.refreshes("refused")]));

/** How many refreshes there were in this test, and how many were refused. */
const spent = async () => [await service.refreshes("refreshed") - refreshed, await service.refreshes("refused") - refused];
const guard = (cookie, { method = "GET", headers, ...options } = {}) => guardRequest(
  { method, headers: new Headers({ ...(cookie !== undefined && { Cookie: cookie }), ...headers }) }, { baseUrl: service.address, ...options });
const expired = async () => service.expired(await service.issue("alice"));
const ten = (make) => Promise.all(Array.from({ length: 10 }, make));
/** Whether event operations work with a Cookie. */
const works = async (cookie) => !!(await listEvents({ client: serverClient({ baseUrl: service.address, cookie }), path })).data;
/** A fetch that counts its calls. */
const counted = (send = fetch) => {
  const counting = (...call) => (counting.calls++, send(...call));
  return Object.assign(counting, { calls: 0 });
};

test("somebody, nobody, and why", async () => {
  const session = await service.issue("alice");
  const { session: { username, expires }, cookie, headers, ...rest } = await guard(`theme=dark; ${cookieOf(session)}`);
  assert.equal(username, "alice");
  assert.ok(expires > new Date());
  assert.deepEqual({ cookie, headers, ...rest }, { cookie: `theme=dark; ${cookieOf(session)}`, headers: [noCache], reason: undefined, error: undefined });
  for (const [cookie, reason] of [
    [undefined, "no_token"], ["", "no_token"], ["token=; ;=;", "no_token"], [`refreshToken=${session.refreshToken}`, "no_token"],
    ["token=x", "invalid_token"], [`token=${session.token}; token=x`, "invalid_token"],
    [`token=${service.expired(session).token}`, "no_refresh_token"],
  ]) {
    const { cookie: _, ...nobody } = await guard(cookie);
    assert.deepEqual(nobody, { session: null, reason, headers: [noCache], error: undefined }, cookie);
  }
});

test("ten requests at once with an expired JWT are one refresh, and each has the new cookies", async (t) => {
  const session = await expired();
  const send = counted();
  const results = await ten(() => guard(`a=1; ${cookieOf(session)}; b=2`, { fetch: send }));
  assert.equal(send.calls, 1);
  assert.deepEqual(await spent(), [1, 0]);
  const [{ cookie, headers }] = results;
  for (const result of results) assert.deepEqual([result.session.username, result.cookie, result.headers], ["alice", cookie, headers]);
  assert.match(cookie, /^a=1; b=2; token=[^;]+; refreshToken=[0-9a-f]{128}$/);
  assert.ok(await works(cookie));
  const [first, ...cookies] = headers;
  assert.deepEqual(first, noCache);
  assert.deepEqual(cookies.map(([name, value]) => [name, value.replace(/=[^;]*/, "=VALUE")]),
    ["token", "refreshToken"].map((name) => ["Set-Cookie", `${name}=VALUE; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax`]));

  // The page was reloaded before the cookies had arrived, and once more much later.
  assert.deepEqual(await guard(`b=2; ${cookieOf(session)}`).then((late) => late.headers), headers);
  assert.deepEqual((await guard(cookie)).headers, [noCache], "who has them is not sent them again");
  t.mock.timers.enable({ apis: ["Date"], now: Date.now() + 20_000 });
  assert.equal((await guard(cookieOf(session))).reason, "invalid_refresh_token");
  assert.deepEqual(await spent(), [1, 1]);
});

test("one user is never another, whoever comes at once", async () => {
  const users = ["alice", "bob", "carol"];
  const sessions = await Promise.all(users.map((user) => service.issue(user)));
  const cookies = sessions.map((session, i) => cookieOf(i % 2 ? service.expired(session) : session)); // a JWT of the next second would be another
  const results = await Promise.all([0, 1, 2, 0, 1, 2].map((i) => guard(cookies[i])));
  assert.deepEqual(results.map(({ session, error }) => session?.username ?? error), [...users, ...users]);
  assert.deepEqual(await spent(), [1, 0]);
});

test("ten requests with a refresh token that a tab has just spent ask once, sign nobody out at first, and nobody in", async (t) => {
  const session = await expired();
  const jar = fetchWithCookies(session);
  await jar(`${service.address}/api/auth/session`); // the tab
  const send = counted();
  for (const { cookie, ...result } of await ten(() => guard(cookieOf(session), { fetch: send }))) {
    assert.deepEqual(result, { session: undefined, reason: "invalid_refresh_token", headers: [noCache], error: undefined });
    assert.equal(cookie, cookieOf(session));
  }
  const now = Date.now();
  t.mock.timers.enable({ apis: ["Date"], now: now + 1_000 });
  assert.equal((await guard(cookieOf(session), { fetch: send })).session, undefined);
  t.mock.timers.setTime(now + 3_000);
  for (const { session: who } of await ten(() => guard(cookieOf(session), { fetch: send }))) assert.equal(who, null);
  assert.equal(send.calls, 1);
  assert.deepEqual(await spent(), [1, 1]);
  assert.equal((await jar(`${service.address}/api/event/plaza`)).status, 200, "the tab's session goes on");
});

test("HEAD, a prefetch and what another site embeds refresh nothing, and a link from there does", async () => {
  const session = await expired();
  const navigation = { "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document" };
  for (const request of [
    { method: "HEAD" }, { headers: { "Sec-Purpose": "prefetch" } }, { headers: { "Sec-Purpose": "prefetch;prerender" } }, { headers: { Purpose: "prefetch" } },
    { headers: { ...navigation, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image" } }, { headers: { ...navigation, "Sec-Fetch-Dest": "iframe" } },
    { headers: { ...navigation, "Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors" } },
  ]) {
    const result = await guard(cookieOf(session), request);
    assert.deepEqual([result.session, result.headers], [undefined, [noCache]], JSON.stringify(request));
    assert.equal((await guard(`token=${session.token}`, request)).session, null, "there is nothing that could be refreshed");
    assert.equal((await guard("", request)).reason, "no_token");
    assert.equal((await guard(cookieOf(await service.issue("bob")), request)).session.username, "bob");
  }
  assert.deepEqual(await spent(), [0, 0]);
  assert.equal((await guard(cookieOf(session), { headers: navigation })).session.username, "alice");
  assert.deepEqual(await spent(), [1, 0]);
  const passedOn = { ...navigation, "Sec-Fetch-Dest": "empty" };
  assert.equal((await guard(cookieOf(await expired()), { headers: passedOn })).session.username, "alice", "a window behind a service worker");
});

test("where the service is away, or a stranger speaks for it, nobody is signed out and nothing is kept", async () => {
  const session = await expired();
  const json = (status, body, headers) => () => Response.json(body, { status, headers });
  const named = { "Session-User": "mallory", "Session-Expires": "2030-01-01T00:00:00Z", "Set-Cookie": "token=x" };
  for (const stranger of [
    () => Promise.reject(new TypeError("fetch failed")), json(503, { error: "Overloaded", code: "overloaded", requestId: "1" }), json(429, {}),
    json(500, { authenticated: false, error: "No token" }), json(404, { authenticated: false, error: "No token" }), json(400, { error: "No token" }),
    json(400, { error: "Invalid token", authenticated: false }), json(400, { authenticated: false, error: "No token", code: "no_token" }),
    json(400, { authenticated: false, error: "no token" }), json(400, null), json(401, { error: "Not authenticated", code: "no_token" }),
    json(200, {}, named), json(200, { authenticated: true }, { "Set-Cookie": "token=x" }), json(201, { authenticated: true }, named),
    () => new Response("<h1>Sign in to the Wi-Fi</h1>", { headers: { ...named, "Content-Type": "text/html" } }),
    () => new Response(null, { status: 302, headers: { ...named, Location: "/" } }), () => new Response("Bad Request", { status: 400 }),
  ]) {
    const { error, ...result } = await guard(cookieOf(session), { fetch: async () => stranger() });
    assert.deepEqual(result, { session: undefined, reason: undefined, cookie: cookieOf(session), headers: [noCache] });
    assert.ok(error instanceof CallError || error instanceof TypeError, error);
  }
  // Whoever is redirected to the service comes there without cookies.
  const elsewhere = http.createServer((_, response) => response.writeHead(302, { Location: `${service.address}/api/auth/session` }).end()).listen(0, "127.0.0.1");
  await once(elsewhere, "listening");
  const redirected = await guard(cookieOf(session), { baseUrl: `http://127.0.0.1:${elsewhere.address().port}` });
  elsewhere.close();
  assert.deepEqual([redirected.session, redirected.error.status], [undefined, 302]);
  assert.equal((await guard(cookieOf(session))).session.username, "alice");
});

test("a service that hangs is not waited for, and its cookies are there for the next request", async (t) => {
  const session = await expired();
  let answer;
  const send = counted(async (...call) => (await new Promise((come) => (answer = come)), fetch(...call)));
  const impatient = new AbortController();
  t.mock.method(AbortSignal, "timeout", () => impatient.signal);
  const first = guard(cookieOf(session), { fetch: send });
  impatient.abort(new Error("10 seconds are over"));
  const { session: who, error } = await first;
  assert.deepEqual([who, error.message], [undefined, "10 seconds are over"]);
  AbortSignal.timeout.mock.restore();
  t.mock.timers.enable({ apis: ["Date"], now: Date.now() + 21_000 });
  await guard("token=another");
  const second = guard(cookieOf(session), { fetch: send });
  answer();
  assert.equal((await second).headers.length, 3);
  assert.equal(send.calls, 1);
});

test("cookies are passed on as they are, however many", async () => {
  const values = ["token=a=b; Path=/; Expires=Wed, 21 Oct 2030 07:28:00 GMT; Secure; SameSite=None; Partitioned", "refreshToken=c; Domain=example.org", "lb=1, 2"];
  const headers = new Headers({ "Content-Type": "application/json", "Session-User": "alice", "Session-Expires": "2030-01-01T00:00:00Z" });
  for (const value of values) headers.append("Set-Cookie", value);
  const result = await guard("token=old; xtoken=1; refreshToken=old; lb=0", { fetch: async () => Response.json({ authenticated: true }, { headers }) });
  assert.deepEqual(result.headers, [noCache, ...values.map((value) => ["Set-Cookie", value])]);
  assert.equal(result.cookie, "xtoken=1; token=a=b; refreshToken=c; lb=1, 2");
});

test("only the latest refreshes are kept", async () => {
  const headers = { "Session-User": "alice", "Session-Expires": "2030-01-01T00:00:00Z", "Set-Cookie": "token=new" };
  const send = counted(async () => Response.json({ authenticated: true }, { headers }));
  const ask = (i) => guard(`token=${i}`, { fetch: send });
  for (let i = 0; i <= 10_000; i++) await ask(i);
  await ask(10_000);
  assert.equal(send.calls, 10_001);
  await ask(0);
  assert.equal(send.calls, 10_002);
});
