// The client in Node, against the real service. The browser's part is in tests/browser.
import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { gzipSync } from "node:zlib";
import { buildSync } from "esbuild";
import {
  allEvents, CallError, client, connect, createClient, createEvent, getSession, guardRequest, joinEvent, keepSession, leaveEvent, listEvents,
  nextPage, onSessionChange, reasonOf, refreshSession, serverClient, sessionOf, signInUrl, signOut,
} from "worldevents-client";
import { eventPagesOptions, eventsOptions } from "worldevents-client/query";
import { eventually, fetchWithCookies, startService } from "../../../tests/browser/service.mjs";

const path = { id: "plaza" };
const body = { name: "Boat trip", description: "", scheduledAt: "2030-01-01T00:00:00Z" };
let service, asked, spent;

before(async () => (service = await startService()));
after(() => service?.stop());
beforeEach(async () => {
  globalThis.document = {}; // as in a page
  asked = 0;
  spent = await service.refreshes("refreshed");
});

/** Connects with these cookies, and counts how often the app is asked to sign the user in. */
function connectWith(session, wrap = (send) => send) {
  connect({ baseUrl: service.address, fetch: wrap(fetchWithCookies(session)), onSignInNeeded: () => asked++ });
}
const refreshes = async () => (await service.refreshes("refreshed")) - spent;

/** Ends a session from outside the client, which keeps its cookies. */
async function revoke(session) {
  const response = await fetchWithCookies(session)(`${service.address}/sign-out`, { method: "POST" });
  assert.equal(response.status, 204);
}

/** Notes the path of each request. */
const watch = (paths) => (send) => (input, init) => {
  paths.push(new URL(input.url ?? input).pathname);
  return send(input, init);
};

test("an expired JWT is refreshed once for all calls, and each call succeeds", async () => {
  connectWith(service.expired(await service.issue("alice")));
  const results = await Promise.all(Array.from({ length: 20 }, () => listEvents({ path })));
  assert.deepEqual(results.map((result) => result.data), Array(20).fill({ events: [] }));
  assert.equal(await refreshes(), 1);
  assert.equal(asked, 0);
});

test("a body is sent again", async () => {
  connectWith(service.expired(await service.issue("alice")));
  const { data } = await createEvent({ path: { id: "harbour" }, body });
  const { data: list } = await listEvents({ path: { id: "harbour" } });
  assert.deepEqual(data, { success: true, id: list.events[0].id });
});

test("asking twice for the session asks the service once, as StrictMode's double effects do", async () => {
  connectWith(service.expired(await service.issue("alice")));
  const [first, second] = await Promise.all([getSession(), getSession()]);
  assert.deepEqual([first.data, second.data], Array(2).fill({ authenticated: true }));
  assert.equal(sessionOf(first).username, "alice");
  assert.ok(sessionOf(second).expires > new Date());
  assert.equal(await refreshes(), 1);
  await Promise.all([refreshSession(), refreshSession()]);
  assert.equal(await refreshes(), 2);
});

test("an effect that is undone at once does not take the refresh from the one that stays", async () => {
  connectWith(service.expired(await service.issue("alice")));
  const undone = new AbortController();
  const first = listEvents({ path, signal: undone.signal });
  const second = listEvents({ path });
  undone.abort();
  await assert.rejects(first, { name: "AbortError" });
  assert.deepEqual((await second).data, { events: [] });
  assert.equal(await refreshes(), 1);
});

test("a refresh that lost its race asks once more", async () => {
  const session = service.expired(await service.issue("alice"));
  connectWith(session, (send) => {
    let late = fetchWithCookies(session); // a request that left with the old cookies
    return async (input, init) => {
      if (!late || !`${input.url ?? input}`.endsWith("/api/auth/session")) return send(input, init);
      await send(`${service.address}/api/auth/refresh`); // another page was faster
      const lost = await late(input, init);
      late = undefined;
      assert.equal(lost.status, 400);
      return lost;
    };
  });
  assert.deepEqual((await listEvents({ path })).data, { events: [] });
  assert.equal(await refreshes(), 1);
  assert.equal(asked, 0);
});

test("whoever is not signed in is asked to sign in, once, and the result is typed", async () => {
  connectWith({});
  const results = await Promise.all([listEvents({ path }), listEvents({ path })]);
  assert.deepEqual(results.map((result) => result.error?.code), ["no_token", "no_token"]);
  assert.equal(asked, 1);
  assert.deepEqual((await getSession()).error, { authenticated: false, error: "No token" });
});

test("a session that was ended elsewhere ends here", async () => {
  const session = service.expired(await service.issue("alice"));
  await service.issue("alice"); // signing in on another device
  connectWith(session);
  assert.equal((await listEvents({ path })).error?.code, "token_expired");
  assert.equal(asked, 1);
  assert.equal(await refreshes(), 0);
});

test("a session that was revoked is signed out at its next call, without a refresh", async () => {
  const session = await service.issue("alice");
  await revoke(session);
  const urls = [];
  connectWith(session, watch(urls));
  const results = await Promise.all([listEvents({ path }), joinEvent({ path }), listEvents({ path })]);
  assert.deepEqual(results.map((result) => result.error?.code), Array(3).fill("invalid_token"));
  assert.equal(urls.length, 3);
  assert.equal(asked, 1);
});

test("a session that is revoked while it is refreshed is asked for no second time", async () => {
  const session = service.expired(await service.issue("alice"));
  const urls = [];
  connectWith(session, (send) => watch(urls)(async (input, init) => {
    const response = await send(input, init);
    const [, refreshToken] = response.headers.getSetCookie().join().match(/refreshToken=(\w+)/) ?? [];
    if (refreshToken) await revoke({ refreshToken });
    return response;
  }));
  assert.equal((await listEvents({ path })).error?.code, "invalid_token");
  assert.deepEqual(urls, ["/api/event/plaza", "/api/auth/session", "/api/event/plaza"]);
  assert.equal(asked, 1);
});

test("what getSession says of a revoked session does not ask again: a page that looks there first does not loop", async () => {
  const session = await service.issue("alice");
  await revoke(session);
  const send = fetchWithCookies(session);
  let shown = 0;
  const show = async () => {
    if (++shown > 3) return;
    if ((await getSession()).data) await listEvents({ path });
  };
  let pending;
  connect({ baseUrl: service.address, fetch: send, onSignInNeeded: () => (asked++, (pending = show())) });
  await show();
  await pending;
  assert.equal(shown, 2);
  assert.equal(asked, 1);
});

test("after signing in again, in a window of its own, the page is told of the next end", async () => {
  const session = await service.issue("alice");
  let send = fetchWithCookies(session);
  connect({ baseUrl: service.address, fetch: (...call) => send(...call), onSignInNeeded: () => asked++ });
  await revoke(session);
  await listEvents({ path });
  for (const proves of [() => listEvents({ path }), () => refreshSession()]) {
    const next = await service.issue("alice");
    send = fetchWithCookies(next);
    assert.ok((await proves()).data);
    await revoke(next);
    await listEvents({ path });
  }
  assert.equal(asked, 3);
});

test("an error other than 401 is left alone", async () => {
  connectWith(await service.issue("alice"));
  const { error } = await joinEvent({ path: { id: "nothing" } });
  assert.equal(error?.code, "event_not_found");
  assert.equal(asked, 0);
});

test("when the service cannot refresh now, that is the answer, and nobody is signed out", async () => {
  connectWith(service.expired(await service.issue("alice")), (send) => (input, init) =>
    `${input.url ?? input}`.endsWith("/api/auth/session")
      ? Response.json({ error: "Overloaded", code: "overloaded", requestId: "1" }, { status: 503 })
      : send(input, init));
  assert.equal((await listEvents({ path })).error?.code, "overloaded");
  assert.equal(asked, 0);
});

test("no network rejects", async () => {
  connectWith({}, () => () => Promise.reject(new TypeError("fetch failed")));
  await assert.rejects(listEvents({ path }), TypeError);
});

test("keepSession serves other clients, and respects that they omit cookies", async () => {
  const send = keepSession({ baseUrl: service.address, fetch: fetchWithCookies(await service.issue("alice")) });
  assert.equal((await send(`${service.address}/api/event/plaza`)).status, 200);
  assert.equal((await send(`${service.address}/api/event/plaza`, { credentials: "omit" })).status, 401);
});

/** Runs as a server does, where there is no page. */
function onServer() {
  delete globalThis.document;
}

test("on a server two users at once are two users", async () => {
  onServer();
  const cookie = ({ token, refreshToken }) => ({ headers: { Cookie: `token=${token}; refreshToken=${refreshToken}` } });
  connect({ baseUrl: service.address });
  const [alice, bob] = await Promise.all(["alice", "bob"].map((name) => service.issue(name)));
  const sessions = await Promise.all([alice, bob, alice].map((session) => getSession(cookie(session))));
  assert.deepEqual(sessions.map((session) => sessionOf(session).username), ["alice", "bob", "alice"]);

  // Both JWTs have expired: each call refreshes with the cookies of its own user.
  const refreshed = [];
  connect({ baseUrl: service.address, fetch: async (input, init) => {
    const response = await fetch(input, init);
    if (response.headers.has("Session-User")) refreshed.push(response.headers.get("Session-User"));
    return response;
  } });
  await Promise.all([alice, bob].map((session) => listEvents({ path, ...cookie(service.expired(session)) })));
  assert.deepEqual(refreshed.sort(), ["alice", "bob"]);
});

test("serverClient sends the user's JWT alone, so nothing is refreshed and nobody is signed out", async () => {
  onServer();
  const session = await service.issue("alice");
  const sent = [];
  const server = (session) => serverClient({
    baseUrl: service.address,
    cookie: `theme=dark; token=${session.token}; refreshToken=${session.refreshToken}; xtoken=1`,
    fetch: (input, init) => (sent.push(new Request(input, init).headers.get("Cookie")), fetch(input, init)),
  });
  assert.equal(sessionOf(await getSession({ client: server(session) })).username, "alice");
  assert.deepEqual(Object.keys((await listEvents({ client: server(session), path })).data), ["events"]);

  const expired = server(service.expired(session));
  assert.equal((await listEvents({ client: expired, path })).error.code, "token_expired");
  assert.deepEqual((await getSession({ client: expired })).error, { authenticated: false, error: "No refresh token" });
  assert.deepEqual((await refreshSession({ client: expired })).error, { error: "No refresh token" });
  await assert.rejects(listEvents({ client: expired, path, throwOnError: true }), { name: "CallError", code: "token_expired" });
  assert.equal(await refreshes(), 0);
  assert.ok(sent.every((cookie) => /^token=[^;]*$/.test(cookie)), sent.join("\n"));

  const nobody = serverClient({ baseUrl: service.address, cookie: undefined });
  assert.equal((await listEvents({ client: nobody, path })).error.code, "no_token");
});

test("under throwOnError calls reject with what went wrong", async () => {
  connectWith({});
  const api = connect({ baseUrl: service.address, fetch: fetchWithCookies(await service.issue("alice")), throwOnError: true });
  assert.deepEqual((await api.listEvents({ path: { id: "quiet" } })).data, { events: [] });
  await assert.rejects(createEvent({ path, body: { ...body, name: "" } }), (error) => {
    assert.ok(error instanceof CallError && error instanceof Error);
    assert.deepEqual([error.status, error.code, Object.keys(error.fields), error.fieldCodes], [400, "validation_failed", ["name"], { name: "minLength" }]);
    assert.match(error.requestId, /^[0-9a-f-]{36}$/);
    assert.match(error.stack, /CallError/);
    return true;
  });
  await assert.rejects(joinEvent({ path: { id: "nothing" } }), { status: 404, code: "event_not_found", fields: {}, fieldCodes: {}, retryAfter: undefined });
  assert.equal((await joinEvent({ path: { id: "nothing" }, throwOnError: false })).error.code, "event_not_found");

  connectWith({});
  await assert.rejects(listEvents({ path, throwOnError: true }), { status: 401, code: "no_token" });
  await assert.rejects(getSession({ throwOnError: true }), { status: 400, code: undefined, message: "No token" });
  assert.equal((await listEvents({ path })).error.code, "no_token");
});

test("what is not the contract's rejects, whatever throwOnError says", async () => {
  for (const foreign of [
    () => new Response("<h1>Bad Gateway</h1>", { status: 502 }),
    () => Response.json({ message: "no upstream" }, { status: 502 }),
    () => Response.json(null, { status: 502 }),
    () => new Response(null, { status: 502 }),
  ]) {
    connectWith({}, () => async () => foreign());
    await assert.rejects(listEvents({ path }), { name: "CallError", status: 502, code: undefined });
  }
  connectWith({}, () => async () => new Response('{"events":[', { headers: { "Content-Type": "application/json" } }));
  await assert.rejects(listEvents({ path }), { name: "CallError", status: 200 });
});

test("ids that no browser can ask for are refused here, with the field", async () => {
  const urls = [];
  connectWith({}, watch(urls));
  for (const id of ["", ".", ".."]) {
    for (const call of [listEvents, joinEvent, leaveEvent, (options) => createEvent({ ...options, body })]) {
      const { error } = await call({ path: { id } });
      assert.deepEqual([error.code, Object.keys(error.fields), error.fieldCodes], ["validation_failed", ["id"], { id: "not" }]);
      await assert.rejects(call({ path: { id }, throwOnError: true }), { name: "CallError", status: 400, code: "validation_failed" });
    }
    await assert.rejects(allEvents({ path: { id } }).next(), { name: "CallError", status: 400 });
  }
  assert.deepEqual(urls, []);
  connectWith(await service.issue("alice"), watch(urls));
  for (const id of ["...", "a/../b", "%2E", "?", " "]) assert.ok((await listEvents({ path: { id } })).data, id);
});

/** Refuses the first calls so, with no effect. */
const refuseFirst = (times, status, retryAfter, headers) => (send) => (input, init) => times-- > 0
  ? Promise.resolve(Response.json(
    { error: "Later", code: status === 429 ? "rate_limited" : "overloaded", requestId: "1" },
    { status, headers: { "Retry-After": retryAfter, ...headers } }))
  : send(input, init);

test("429 and 503 are repeated as told, bodies too", async () => {
  const session = await service.issue("alice");
  for (const status of [429, 503]) {
    connectWith(session, refuseFirst(2, status, "0"));
    assert.ok((await createEvent({ path: { id: "pier" }, body })).data?.id);
  }
  assert.equal((await listEvents({ path: { id: "pier" } })).data.events.length, 2);

  connectWith(session, refuseFirst(1, 503, "1"));
  const began = Date.now();
  assert.ok((await listEvents({ path })).data);
  assert.ok(Date.now() - began >= 1000, "it waits as long as told");

  connectWith(service.expired(session), refuseFirst(1, 429, "0"));
  assert.ok((await getSession()).data, "a refresh that was refused has spent nothing");
  assert.equal(await refreshes(), 1);
});

/** Breaks the connection of the first calls once the service has answered. Notes the key of each call. */
const breakFirst = (times, keys) => (send) => async (input, init) => {
  keys.push(input.headers?.get("Idempotency-Key") ?? null);
  const response = await send(input, init);
  if (times-- <= 0) return response;
  throw new TypeError("fetch failed");
};

test("a creation whose connection broke is repeated with its key, and makes one event", async () => {
  const session = await service.issue("alice");
  const world = { id: "breakwater" };
  const events = async () => (await listEvents({ path: world })).data.events.length;
  for (const [breaks, calls, made] of [[0, 1, 1], [1, 2, 2], [2, 3, 3], [3, 3, 4]]) {
    const keys = [];
    let broken = 0;
    connectWith(session, (send) => (input, init) => breakFirst(broken-- > 0 ? 1 : 0, keys)(send)(input, init));
    assert.ok((await createEvent({ path: { id: "pier" }, body })).data?.id, "the service shows that it knows keys");
    keys.length = 0;
    broken = breaks;
    const result = createEvent({ path: world, body });
    if (breaks > 2) await assert.rejects(result, TypeError);
    else assert.ok((await result).data.id);
    broken = 0;
    assert.equal(keys.length, calls);
    assert.equal(new Set(keys).size, 1, `one key: ${keys}`);
    assert.match(keys[0], /^[!-~]{20,255}$/);
    assert.equal(await events(), made);
  }
});

test("a call whose connection broke is not repeated unless it is a creation, and the service has shown that it knows keys", async () => {
  const session = await service.issue("alice");
  const path = { id: "reef" };
  let keys = [];
  connectWith(session, breakFirst(1, keys));
  await assert.rejects(createEvent({ path, body }), TypeError);
  assert.equal(keys.length, 1);
  const { data } = await createEvent({ path, body, headers: { "Idempotency-Key": "mine" } });
  assert.deepEqual([keys[1], (await createEvent({ path, body, headers: { "Idempotency-Key": "mine" } })).data.id], ["mine", data.id]);
  const { error } = await createEvent({ path, body: { ...body, name: "Another" }, headers: { "Idempotency-Key": "mine" } });
  assert.equal(error.code, "idempotency_conflict");

  let broken = 0;
  keys = [];
  connectWith(session, (send) => (input, init) => breakFirst(broken-- > 0 ? 1 : 0, keys)(send)(input, init));
  await createEvent({ path, body });
  for (const call of [() => joinEvent({ path: data }), () => leaveEvent({ path: data }), () => listEvents({ path }), () => getSession()]) {
    broken = 1;
    await assert.rejects(call(), TypeError);
  }
  assert.deepEqual(keys.slice(1), [null, null, null, null]);

  broken = 9;
  const undone = new AbortController();
  const result = createEvent({ path, body, signal: undone.signal });
  await eventually("it was sent", () => keys.length > 5);
  undone.abort();
  await assert.rejects(result, { name: "AbortError" });
});

test("a Retry-After that is a date is one by the clock of the response, whatever the one here says", async (t) => {
  const zone = process.env.TZ;
  process.env.TZ = "America/New_York";
  t.after(() => zone === undefined ? delete process.env.TZ : (process.env.TZ = zone));
  const waits = (retryAfter, date) => new CallError(503, {}, new Headers({ "Retry-After": retryAfter, ...(date && { Date: date }) })).retryAfter;
  const date = "Sun, 06 Nov 1994 08:49:07 GMT";
  for (const form of ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]) assert.equal(waits(form, date), 30, form);
  assert.equal(waits(date, date), 0);
  assert.equal(waits(date, "Sun, 06 Nov 1994 08:49:37 GMT"), 0, "it is over");
  assert.equal(waits("Fri, 31 Dec 9999 23:59:59 GMT", date), 3600, "a clock is wrong");
  for (const unknown of [undefined, "soon"]) { // Another origin's Date no page sees.
    const wait = waits(new Date(Date.now() + 30_000).toUTCString(), unknown);
    assert.ok(wait > 25 && wait <= 30, `${wait}`);
    assert.equal(waits(date, unknown), 0);
  }
  for (const junk of ["", "soon", "-5", "1.5", "1e3", "120, 120", "2030-01-01", "2030-01-01T00:00:00Z", "Sun, 99 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 +0100"]) {
    assert.equal(waits(junk, date), undefined, junk);
  }

  const session = await service.issue("alice");
  for (const day of [-1, 0, 1]) {
    const at = (seconds) => new Date(Date.now() + day * 86_400_000 + seconds * 1000).toUTCString();
    for (const [seconds, calls] of [[0, 2], [-60, 2], [30, 1]]) {
      const urls = [];
      connectWith(session, (send) => watch(urls)(refuseFirst(1, 503, at(seconds), { Date: at(0) })(send)));
      assert.equal((await listEvents({ path })).response.status, calls === 2 ? 200 : 503);
      assert.equal(urls.length, calls);
    }
  }
});

test("429 and 503 are repeated twice at most, and not when told to wait long, or not told", async () => {
  for (const [refusals, status, retryAfter, calls] of [[9, 429, "0", 3], [9, 503, "11", 1], [9, 503, "", 1], [9, 503, "soon", 1]]) {
    const urls = [];
    connectWith({}, (send) => watch(urls)(refuseFirst(refusals, status, retryAfter)(send)));
    assert.equal((await listEvents({ path })).response.status, status);
    assert.equal(urls.length, calls);
  }
  connectWith({}, refuseFirst(9, 429, "60"));
  await assert.rejects(listEvents({ path, throwOnError: true }), { code: "rate_limited", retryAfter: 60 });

  const undone = new AbortController();
  connectWith({}, refuseFirst(9, 503, "10"));
  setTimeout(() => undone.abort(), 20);
  const began = Date.now();
  await assert.rejects(listEvents({ path, signal: undone.signal }), { name: "AbortError" });
  assert.ok(Date.now() - began < 5000, "waiting ends with the call");
});

test("allEvents follows Link to the last page", async () => {
  connectWith(await service.issue("alice"));
  const world = { id: "a/b?&" };
  const ids = [];
  for (let i = 0; i < 7; i++) ids.push((await createEvent({ path: world, body: { ...body, scheduledAt: `203${i}-01-01T00:00:00Z` } })).data.id);
  for (const limit of [1, 3, 7, 100, undefined]) {
    const read = [];
    for await (const event of allEvents({ path: world, query: { limit } })) read.push(event.id);
    assert.deepEqual(read, ids, `limit ${limit}`);
  }
  const read = [];
  for await (const event of allEvents({ path: world, query: { limit: 2, from: "2031-01-01T00:00:00Z", to: "2036-01-01T00:00:00Z" } })) read.push(event.id);
  assert.deepEqual(read, ids.slice(1, 6));
  assert.equal(nextPage(await listEvents({ path: world })), undefined);
  assert.ok(nextPage(await listEvents({ path: world, query: { limit: 3 } })).cursor);
  connectWith({});
  await assert.rejects(allEvents({ path: world }).next(), { name: "CallError", code: "no_token" });
});

test("messages of others on the channel of the tabs change nothing", async () => {
  connectWith(await service.issue("alice"));
  await getSession();
  const told = [], stop = onSessionChange((session) => told.push(session?.username));
  const channel = new BroadcastChannel(`worldevents ${service.address}`);
  try {
    for (const message of [null, undefined, 0, "x", {}, [], { signedOut: true }]) channel.postMessage(message);
    channel.postMessage({ session: null, signedOut: true }); // theirs, and the last
    await eventually("they have come", () => told.includes(undefined));
    assert.deepEqual(told.filter((name) => name !== "alice"), [undefined]);
  } finally {
    stop();
    channel.close();
  }
});

test("a limit that is undefined is none: pages have the usual size", async () => {
  const asked = [];
  connectWith(await service.issue("alice"), (send) => (input, init) => {
    asked.push(new URL(input.url).search);
    return send(input, init);
  });
  const query = { limit: undefined };
  for await (const _ of allEvents({ path, query }));
  await eventPagesOptions("plaza", query).queryFn({ pageParam: undefined });
  await eventsOptions("plaza", query).queryFn({});
  assert.deepEqual(asked, ["?limit=100", "?limit=20", ""]);
});

test("allEvents ends where a cache gives the first page for every cursor", async () => {
  let calls = 0;
  connectWith(await service.issue("alice"), () => async () => {
    if (++calls > 5) throw new TypeError("asked again and again");
    return Response.json({ events: [] }, { headers: { Link: '</api/event/plaza?limit=100&cursor=x>; rel="next"' } });
  });
  await assert.rejects(allEvents({ path }).next(), { name: "CallError", status: 200 });
  assert.equal(calls, 2);
});

test("any world that the contract allows is reached, and no other", async () => {
  connectWith(await service.issue("alice"));
  const worlds = [
    "100%", "%", "%2F", "%2f..", "a/b", "/", "//", "?", "#", "a?limit=1#b", "&=", "+", " ", "a b", "\\", "...", "..a", "~", ":", ";", "ü", "u\u0308", "😀",
    "x".repeat(128), "😀".repeat(128), "\u2028", "\uFEFF", "</script>", "join", "api", "constructor", "__proto__",
  ];
  for (const world of worlds) {
    const id = { id: world };
    assert.equal((await createEvent({ path: id, body: { ...body, name: `In ${worlds.indexOf(world)}` } })).error, undefined, world);
  }
  for (const [i, world] of worlds.entries()) {
    const names = [];
    for await (const { name } of allEvents({ path: { id: world }, query: { limit: 1 } })) names.push(name);
    assert.deepEqual(names, [`In ${i}`], world);
  }
  for (const world of ["x".repeat(129), "\n", "\u0000", "\u0085"]) {
    const { error } = await listEvents({ path: { id: world } });
    assert.deepEqual([error.code, Object.keys(error.fields)], ["validation_failed", ["id"]], JSON.stringify(world));
  }
});

test("allEvents goes on after a 503 in its middle, and rejects where the service stays away", async () => {
  const session = await service.issue("alice");
  connectWith(session);
  const world = { id: "gallery" };
  for (let i = 0; i < 4; i++) await createEvent({ path: world, body: { ...body, name: `Event ${i}`, scheduledAt: `203${i}-01-01T00:00:00Z` } });
  for (const [refusals, want] of [[1, 4], [9, 2]]) {
    let pages = 0;
    connectWith(session, (send) => {
      const refusing = refuseFirst(refusals, 503, "0")(send);
      return (input, init) => (pages++ < 1 ? send : refusing)(input, init);
    });
    const names = [];
    const read = async () => {
      for await (const { name } of allEvents({ path: world, query: { limit: 2 } })) names.push(name);
    };
    if (want < 4) await assert.rejects(read, { name: "CallError", status: 503 });
    else await read();
    assert.deepEqual(names, Array.from({ length: want }, (_, i) => `Event ${i}`));
  }
});

test("an aborted signal ends each operation, before and amid the call, and spends nothing", async () => {
  const id = { id: "nothing" };
  const operations = {
    getSession, refreshSession, listEvents: (o) => listEvents({ path, ...o }), createEvent: (o) => createEvent({ path, body, ...o }),
    joinEvent: (o) => joinEvent({ path: id, ...o }), leaveEvent: (o) => leaveEvent({ path: id, ...o }),
    allEvents: async ({ signal }) => {
      for await (const _ of allEvents({ path, signal }));
    },
  };
  connectWith(await service.issue("alice"));
  for (const [name, call] of Object.entries(operations)) {
    const undone = new AbortController();
    const amid = call({ signal: undone.signal });
    undone.abort();
    await assert.rejects(amid, { name: "AbortError" }, name);
    await assert.rejects(async () => call({ signal: undone.signal }), { name: "AbortError" }, name);
  }
  assert.ok((await listEvents({ path })).data, "the session goes on");
  await refreshSession(); // The aborted one goes on, too, and counts: this one shares it, or comes after it.
  assert.equal(asked, 0);
});

test("who is aborted while the session is refreshed does not wait for that, and the others do", async () => {
  let answer;
  const hangs = (send) => async (input, init) => {
    if (new URL(input.url ?? input).pathname === "/api/auth/session" && !answer) await new Promise((come) => (answer = come));
    return send(input, init);
  };
  connectWith(service.expired(await service.issue("alice")), hangs);
  const undone = new AbortController();
  const patient = listEvents({ path });
  const amid = listEvents({ path, signal: undone.signal }).catch((error) => error.name);
  await eventually("the session is asked for", () => answer);
  undone.abort();
  assert.equal(await Promise.race([amid, new Promise((late) => setTimeout(late, 5000, "late"))]), "AbortError");
  answer();
  assert.ok((await patient).data);
  assert.equal(await refreshes(), 1);
});

test("a storage that is full or blocked keeps nobody from being refreshed", async () => {
  const throws = () => {
    throw new DOMException("full", "QuotaExceededError");
  };
  const before = Object.getOwnPropertyDescriptor(globalThis, "localStorage");
  Object.defineProperty(globalThis, "localStorage", { configurable: true, value: { getItem: throws, setItem: throws, removeItem: throws } });
  try {
    connectWith(service.expired(await service.issue("alice")));
    assert.ok((await listEvents({ path })).data);
    assert.ok((await refreshSession()).data);
  } finally {
    if (before) Object.defineProperty(globalThis, "localStorage", before);
    else delete globalThis.localStorage;
  }
});

test("a second client has a service and a session of its own", async () => {
  const urls = [];
  const second = createClient({ baseUrl: service.address, fetch: watch(urls)(fetchWithCookies(await service.issue("bob"))) });
  connectWith(await service.issue("alice"));
  assert.notEqual(second, client);
  const [first, other] = [await getSession(), await getSession({ client: second })];
  assert.deepEqual([first, other].map((session) => sessionOf(session).username), ["alice", "bob"]);
  assert.equal((await joinEvent({ client: second, path: { id: "nothing" } })).error.code, "event_not_found");
  assert.deepEqual(urls, ["/api/auth/session", "/api/event/join/nothing"]);
  assert.equal(signInUrl("/x", { client: second }), `${service.address}/sign-in?return_to=%2Fx`);
});

test("after signOut late calls ask nobody to sign in, until somebody has", async () => {
  let session = await service.issue("alice");
  let send = fetchWithCookies(session);
  const gate = () => {
    let open;
    const passed = new Promise((resolve) => (open = resolve));
    return { passed, open };
  };
  const [late, toService, revoked, fromService] = [gate(), gate(), gate(), gate()];
  let lists = 0;
  connect({ baseUrl: service.address, onSignInNeeded: () => asked++, fetch: async (input, init) => {
    const leaves = `${input.url ?? input}`.endsWith("/sign-out");
    const isEarly = !leaves && ++lists === 1; // whichever response comes first
    if (leaves) await toService.passed;
    const response = await send(input, init);
    if (leaves) {
      revoked.open();
      await fromService.passed;
    } else if (isEarly) await late.passed;
    return response;
  } });
  const early = listEvents({ path }); // it succeeds, but its response comes after signOut
  const leaving = signOut();
  assert.ok((await listEvents({ path })).data); // still signed in
  toService.open();
  await revoked.passed;
  assert.equal((await listEvents({ path })).error.code, "no_token"); // signed out, though the page does not know yet
  fromService.open();
  await leaving;
  late.open();
  assert.ok((await early).data);
  for (let i = 0; i < 2; i++) assert.equal((await listEvents({ path })).error.code, "no_token");
  assert.equal(asked, 0);

  session = await service.issue("alice");
  send = fetchWithCookies(session);
  assert.ok((await listEvents({ path })).data);
  await revoke(session);
  await listEvents({ path });
  assert.equal(asked, 1);
});

test("a signOut that fails changes nothing", async () => {
  const session = await service.issue("alice");
  let down = true;
  connectWith(session, (send) => async (input, init) =>
    down && `${input.url ?? input}`.endsWith("/sign-out")
      ? Response.json({ error: "Internal", code: "internal", requestId: "1" }, { status: 500 }) : send(input, init));
  await getSession();
  const changes = [];
  const end = onSessionChange((session) => changes.push(session?.username));
  await assert.rejects(signOut(), { name: "CallError", status: 500 });
  assert.ok((await listEvents({ path })).data);
  assert.deepEqual(changes, []);
  down = false;
  await signOut();
  assert.deepEqual(changes, [undefined]);
  end();
});

test("what a proxy says of a session, a refresh or a sign-out is not the service's word", async () => {
  const html = (status) => () => new Response("<h1>A proxy's</h1>", { status, headers: { "Content-Type": "text/html" } });
  const json = (status, body) => () => Response.json(body, { status });
  const strangers = [
    ...[400, 401, 403, 404, 410].map(html), html(200), () => new Response(null, { status: 204 }),
    json(400, { error: "No token", status: 400 }), json(400, { error: "No token" }), json(400, { authenticated: false }), json(400, null),
    json(400, { error: "Bad request" }), json(401, { error: "Unauthorized" }), json(401, { code: 401, error: "x" }),
    json(404, { error: "No token", authenticated: false }),
  ];
  for (const stranger of strangers) {
    const session = await service.issue("alice");
    let intercepts = () => false;
    connectWith(session, (send) => async (input, init) => intercepts(new URL(input.url ?? input).pathname) ? stranger() : send(input, init));
    await getSession();
    const changes = [];
    const end = onSessionChange((session) => changes.push(session?.username));
    const what = await stranger().text() || `${stranger().status}`;
    intercepts = () => true;
    for (const call of [getSession, refreshSession, () => listEvents({ path }), () => joinEvent({ path }), () => createEvent({ path, body })]) {
      await assert.rejects(call(), { name: "CallError", status: stranger().status }, what);
    }
    if (stranger().status !== 204) await assert.rejects(signOut(), { name: "CallError", status: stranger().status }, what);
    intercepts = () => false;
    assert.deepEqual((await listEvents({ path })).data, { events: [] }, what);

    connectWith(service.expired(session), (send) => async (input, init) =>
      intercepts(new URL(input.url ?? input).pathname) ? stranger() : send(input, init));
    intercepts = (path) => path.startsWith("/api/auth/"); // the refresh alone
    await assert.rejects(listEvents({ path }), { name: "CallError", status: stranger().status }, what);
    intercepts = () => false;
    assert.ok((await listEvents({ path })).data, "the refresh token is not spent, and refreshing goes on");
    assert.deepEqual([changes, asked], [[], 0], what);
    end();
  }
});

test("a 400 of the two auth operations has a reason", async () => {
  const session = await service.issue("alice");
  const old = service.expired(session);
  const cases = [
    [getSession, {}, "no_token"], [getSession, { token: "x" }, "invalid_token"], [getSession, { token: old.token }, "no_refresh_token"],
    [getSession, { ...old, refreshToken: "x" }, "invalid_refresh_token"],
    [refreshSession, {}, "no_refresh_token"], [refreshSession, { refreshToken: "x" }, "invalid_refresh_token"],
  ];
  for (const [call, cookies, reason] of cases) {
    connectWith(cookies);
    const result = await call();
    assert.equal(reasonOf(result), reason);
    assert.deepEqual(Object.keys(result.error), call === getSession ? ["authenticated", "error"] : ["error"]);
    await assert.rejects(call({ throwOnError: true }), { name: "CallError", status: 400, code: undefined, reason, message: result.error.error });
  }
  connectWith(session);
  assert.equal(reasonOf(await getSession()), undefined);
  connectWith({});
  assert.equal(reasonOf(await listEvents({ path })), undefined, "which has a code");

  const exact = { authenticated: false, error: "No token" };
  assert.equal(reasonOf({ error: exact, response: { status: 400 } }), "no_token");
  for (const error of [
    { ...exact, code: "no_token" }, { ...exact, reason: "no_token" }, { ...exact, authenticated: true }, { ...exact, error: "constructor" },
    { ...exact, error: ["No token"] }, { ...exact, error: "No  token" }, { error: "No token" }, { error: "Invalid token" }, [exact], "No token", null, undefined,
  ]) assert.equal(reasonOf({ error, response: { status: 400 } }), undefined, JSON.stringify(error));
  for (const response of [{ status: 401 }, { status: 200 }, undefined]) assert.equal(reasonOf({ error: exact, response }), undefined);
  assert.equal(new CallError(401, exact).reason, undefined);
});

test("joins and leaves of one event go in the order of the calls, and others beside them", async () => {
  const session = await service.issue("alice");
  const world = { id: "jetty" };
  connectWith(session);
  const { data: { id } } = await createEvent({ path: world, body });
  const { data: { id: other } } = await createEvent({ path: world, body });
  const sent = [], later = () => Response.json(
    { error: "Later", code: "overloaded", requestId: "1" }, { status: 503, headers: { "Retry-After": "1" } });
  let refusals = 0;
  connectWith(session, (send) => async (input, init) => {
    const name = `${input.method} ${input.url.includes(other) ? "other" : "one"}`;
    if (input.method === "POST" && name.endsWith("one") && refusals-- > 0) return sent.push(`${name} refused`), later();
    if (input.method === "POST" && name.endsWith("one")) await new Promise((next) => setTimeout(next, 300)); // a slow one
    sent.push(name);
    return send(input, init);
  });
  const isIn = async (id) => (await listEvents({ path: world })).data.events.find((event) => event.id === id).RSVPs.length > 0;
  for (refusals of [0, 1]) {
    const calls = [joinEvent, leaveEvent].map((call) => call({ path: { id } }));
    calls.push(leaveEvent({ path: { id: other } }));
    for (const { data } of await Promise.all(calls)) assert.deepEqual(data, { success: true });
    assert.equal(await isIn(id), false);
    assert.deepEqual(sent.splice(0).filter((name) => !name.startsWith("GET")).slice(-3), ["DELETE other", "POST one", "DELETE one"]);
  }

  // A call that is given up while it waits is not made, and does not let the next one overtake.
  const undone = new AbortController();
  const first = joinEvent({ path: { id } });
  const second = leaveEvent({ path: { id }, signal: undone.signal });
  const third = joinEvent({ path: { id } });
  undone.abort();
  await assert.rejects(second, { name: "AbortError" });
  assert.deepEqual(sent, []);
  assert.ok((await first).data && (await third).data);
  assert.deepEqual(sent, ["POST one", "POST one"]);
  connectWith(session, (send) => (input, init) => input.method === "POST" ? Promise.reject(new TypeError("fetch failed")) : send(input, init));
  const [joined, left] = await Promise.allSettled([joinEvent({ path: { id } }), leaveEvent({ path: { id } })]);
  assert.deepEqual([joined.status, left.value?.data], ["rejected", { success: true }]);
});

/** Keeps timers of at least 10 seconds from running by themselves: what it returns ends those of so many milliseconds. */
function longTimers(t) {
  const { setTimeout } = globalThis;
  const timers = [];
  globalThis.setTimeout = (act, milliseconds, ...rest) =>
    milliseconds >= 10_000 ? void timers.push({ act, milliseconds }) : setTimeout(act, milliseconds, ...rest);
  t.after(() => (globalThis.setTimeout = setTimeout));
  return (milliseconds) => {
    const due = timers.filter((timer) => timer.milliseconds === milliseconds);
    for (const timer of due.splice(0)) timer.act();
  };
}

/** Never answers what `hangs`, and does not hear when it is aborted. */
const silent = (hangs, calls) => (send) => (input, init) => {
  const name = `${input.method ?? init?.method ?? "GET"} ${new URL(input.url ?? input).pathname}`;
  calls.push(name);
  return hangs(name) ? new Promise(() => {}) : send(input, init);
};

test("a session that is asked for in vain is asked for anew, and nobody is signed out", async (t) => {
  const end = longTimers(t);
  const calls = [];
  let hangs = true;
  connectWith(service.expired(await service.issue("alice")), silent((name) => hangs && /auth|sign-out/.test(name), calls));
  for (const call of [() => listEvents({ path }), () => getSession(), () => refreshSession(), () => getSession({ headers: { "X-Own": "1" } }), () => signOut()]) {
    calls.length = 0;
    const rejected = assert.rejects(call(), { name: "TimeoutError" });
    await eventually("it is asked", () => calls.some((name) => /auth|sign-out/.test(name)));
    end(20_000);
    await rejected;
  }
  hangs = false;
  assert.ok((await listEvents({ path })).data);
  assert.equal(await refreshes(), 1);
  assert.equal(asked, 0);
});

test("a join that is never answered lets the next call of its event go ahead", async (t) => {
  const session = await service.issue("alice");
  connectWith(session);
  const { data: { id } } = await createEvent({ path: { id: "pier" }, body });
  const end = longTimers(t);
  const calls = [];
  const bodyless = (send) => (input, init) => input.method === "POST" ? calls.push("POST") && new Response(new ReadableStream(), { headers: { "Content-Type": "application/json" } }) : send(input, init);
  for (const hangs of [silent((name) => name.startsWith("POST"), calls), bodyless]) {
    calls.length = 0;
    connectWith(session, hangs);
    const joined = assert.rejects(joinEvent({ path: { id } }), { name: "TimeoutError" });
    const left = leaveEvent({ path: { id } });
    await eventually("it is sent", () => calls.length === 1);
    await new Promise((next) => setImmediate(next)); // until the response has begun
    end(30_000);
    await joined;
    assert.deepEqual((await left).data, { success: true });
    assert.equal(calls[0].split(" ")[0], "POST");
  }
});

test("an address is the same however it is written", async (t) => {
  t.after(() => delete globalThis.location);
  const { address } = service;
  const own = { origin: address, href: `${address}/deep/page?a#b` };
  for (const [baseUrl, link, page] of [
    [address, address], [`${address}/`, address], [`${address}//`, address], [address.toUpperCase(), address],
    [address, address, own], [`${address}/`, address, own], ["", "", own], ["/", "", own],
  ]) {
    globalThis.location = page;
    const session = service.expired(await service.issue("alice"));
    connect({ baseUrl, fetch: fetchWithCookies(session), onSignInNeeded: () => asked++ });
    assert.ok((await listEvents({ path })).data, baseUrl);
    assert.equal(signInUrl("/x"), `${link}/sign-in?return_to=%2Fx`);
    const other = createClient({ baseUrl, fetch: fetchWithCookies(session) });
    assert.equal((await getSession({ client: other })).response.url, `${address}/api/auth/session`);
    const cookie = `token=${(await service.issue("bob")).token}`;
    if (page) assert.ok((await listEvents({ client: serverClient({ baseUrl, cookie }), path })).data);
    if (page) assert.equal((await guardRequest(new Request(address, { headers: { cookie } }), { baseUrl })).session.username, "bob");
    await signOut();
  }
  globalThis.location = own;
  for (const baseUrl of ["/prefix", "/prefix/", `${address}/prefix/`]) {
    const urls = [];
    connect({ baseUrl, fetch: async ({ url }) => (urls.push(url), Response.json({ events: [] })) });
    await listEvents({ path });
    assert.deepEqual(urls, [`${address}/prefix/api/event/plaza`]);
  }
});

test("onSessionChange tells sign-in, sign-out and the end of a session, once each", async () => {
  let session = await service.issue("alice");
  let send = fetchWithCookies(session);
  connect({ baseUrl: service.address, fetch: (...call) => send(...call), onSignInNeeded: () => asked++ });
  const changes = [];
  const end = onSessionChange((session) => changes.push(session && session.username));
  await getSession();
  await getSession();
  await refreshSession();
  assert.deepEqual(changes, [], "what was so before is no change");
  await signOut();
  await getSession();
  assert.deepEqual(changes.splice(0), [undefined]);

  session = await service.issue("bob");
  send = fetchWithCookies(session);
  await getSession();
  assert.deepEqual(changes.splice(0), ["bob"]);

  // The session is revoked, though getSession goes on to succeed: a page that asks at each change does not loop.
  await revoke(session);
  for (let i = 0; i < 3; i++) {
    await listEvents({ path });
    assert.ok((await getSession()).data);
  }
  assert.deepEqual(changes.splice(0), [undefined]);
  assert.equal(asked, 1);

  send = fetchWithCookies(await service.issue("carol"));
  await Promise.all([getSession(), listEvents({ path }), getSession()]);
  assert.deepEqual(changes.splice(0), ["carol"]);
  end();
  await signOut();
  assert.deepEqual(changes, []);
});

test("polyfills without throwIfAborted and reasons do, as React Native's", async () => {
  const { throwIfAborted } = AbortSignal.prototype;
  const reason = Object.getOwnPropertyDescriptor(AbortSignal.prototype, "reason");
  delete AbortSignal.prototype.throwIfAborted;
  Object.defineProperty(AbortSignal.prototype, "reason", { value: undefined, configurable: true });
  try {
    connectWith(await service.issue("alice"));
    assert.ok((await getSession()).data);
    const undone = new AbortController();
    const call = getSession({ signal: undone.signal });
    undone.abort();
    await assert.rejects(call, { name: "AbortError" });
  } finally {
    AbortSignal.prototype.throwIfAborted = throwIfAborted;
    Object.defineProperty(AbortSignal.prototype, "reason", reason);
  }
});

test("the package stays small, minified and gzipped", () => {
  const size = (names) => {
    const { outputFiles: [{ contents }] } = buildSync({
      stdin: { contents: `export { ${names} } from "worldevents-client"`, resolveDir: import.meta.dirname },
      bundle: true, minify: true, format: "esm", write: false,
    });
    return gzipSync(contents).length;
  };
  const usual = "connect, createEvent, getSession, joinEvent, leaveEvent, listEvents, onSessionChange, sessionOf, signInUrl, signOut";
  for (const [names, most] of [["connect", 6200], [usual, 6500], [`${usual}, watchEvents, eventLists`, 8400]]) {
    assert.ok(size(names) <= most, `${size(names)} bytes for ${names}`);
  }
});

test("a 200 that is not the service's rejects, and tells nobody that somebody is signed in", async () => {
  const json = { "Content-Type": "application/json" };
  const named = { ...json, "Session-User": "alice", "Session-Expires": "2030-01-01T00:00:00Z" };
  const calls = { getSession, refreshSession, listEvents: () => listEvents({ path }), createEvent: () => createEvent({ path, body }) };
  const session = await service.issue("alice");
  let changes = 0;
  for (const [text, headers, names = Object.keys(calls)] of [
    ["<html>Sign in to the Wi-Fi</html>", { "Content-Type": "text/html" }],
    ["{}", { "Content-Type": "application/jsonp" }],
    [null, {}],
    ["", json],
    ["", { ...json, "Content-Length": "0" }],
    ["{", named],
    ["null", named],
    ["[]", named],
    ["{}", named],
    ['{"authenticated":"true","success":1,"events":{}}', named],
    ['{"authenticated":true,"success":true}', json, ["getSession", "refreshSession", "createEvent"]],
    ['{"authenticated":true,"success":true}', { ...named, "Session-Expires": "soon" }, ["getSession", "refreshSession"]],
    ['{"authenticated":true,"success":true}', { ...named, "Session-User": "%E0%A4" }, ["getSession", "refreshSession"]],
  ]) {
    connectWith(session, () => async () => new Response(text, { headers }));
    const end = onSessionChange(() => changes++);
    for (const name of names) {
      await assert.rejects(calls[name](), { name: "CallError", status: 200, code: undefined }, `${name}: ${text} ${JSON.stringify(headers)}`);
    }
    end();
  }
  assert.equal(changes, 0);
});
