// The client in Node, against the real service. The browser's part is in tests/browser.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, beforeEach, test } from "node:test";
import { gzipSync } from "node:zlib";
import { connect, createEvent, getSession, joinEvent, keepSession, listEvents, refreshSession, sessionOf } from "worldevents-client";
import { fetchWithCookies, startService } from "../../../tests/browser/service.mjs";

const path = { id: "plaza" };
let service, asked, spent;

before(async () => (service = await startService()));
after(() => service?.stop());
beforeEach(async () => {
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
  const body = { name: "Boat trip", description: "", scheduledAt: "2030-01-01T00:00:00Z" };
  const { data } = await createEvent({ path: { id: "harbour" }, body });
  assert.deepEqual(data, { success: true });
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

test("our own file stays small", async () => {
  assert.ok(gzipSync(await readFile(new URL("../dist/index.js", import.meta.url))).length < 5000);
});
