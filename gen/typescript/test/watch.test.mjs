// Watching a list in Node, against the real service and against ones that misbehave. tests/browser has the tabs.
import assert from "node:assert/strict";
import { after, before, beforeEach, describe, test } from "node:test";
import {
  CallError, connect, createClient, createEvent, eventLists, joinEvent, leaveEvent, listEvents, listOf, nextPage, signOut, watchEvents,
} from "worldevents-client";
import { eventually as within, fetchWithCookies, startService } from "../../../tests/browser/service.mjs";

const body = { name: "Boat trip", description: "", scheduledAt: "2030-01-01T00:00:00Z" };
let service, worlds = 0, path;

before(async () => (service = await startService({ SESSIONS_PER_USER: "100" })));
after(() => service?.stop());
beforeEach(() => {
  path = { id: `world-${++worlds}` };
  delete globalThis.document;
});

const connectWith = (session, wrap = (send) => send) =>
  connect({ baseUrl: service.address, fetch: wrap(fetchWithCookies(session)) });

/** Watches `path`, and notes what is told. */
function watch(options = {}) {
  const seen = { lists: [], errors: [], statuses: [] };
  seen.stop = watchEvents({ path, ...options }, {
    onList: ({ events }) => seen.lists.push(events.map(({ RSVPs }) => RSVPs.map(({ user }) => user.username).join())),
    onError: (error, ended) => seen.errors.push([error, ended]),
    onStatus: (live) => seen.statuses.push(live),
    signal: options.signal,
  });
  return seen;
}

const eventually = (holds) => within(`${holds}`, holds);

test("each change is told, and nothing once it is stopped", async () => {
  connectWith(await service.issue("alice"));
  const seen = watch();
  await eventually(() => seen.lists.length === 1);
  const { data } = await createEvent({ path, body });
  await eventually(() => seen.lists.length === 2);
  await leaveEvent({ path: { id: data.id } });
  await eventually(() => seen.lists.length === 3);
  seen.stop();
  await joinEvent({ path: { id: data.id } });
  await new Promise((next) => setTimeout(next, 500));
  assert.deepEqual(seen.lists, [[], ["alice"], [""]]);
  assert.deepEqual(seen.errors, []);
});

test("it goes on from a list that is known: the first call waits, and has nothing to tell", async () => {
  const calls = [];
  connectWith(await service.issue("alice"), (send) => (input, init) => {
    const { method, url, headers } = input;
    if (method === "GET") calls.push([new URL(url).searchParams.get("wait"), headers.get("If-None-Match")]);
    return send(input, init);
  });
  const { data } = await createEvent({ path, body });
  const known = listOf(await listEvents({ path, throwOnError: true }));
  assert.ok(known.etag);
  const seen = watch({ known });
  await eventually(() => calls.length === 2);
  assert.deepEqual(seen.statuses.map(({ status }) => status), ["connecting", "live"]);
  await leaveEvent({ path: { id: data.id } });
  await eventually(() => calls.length === 3);
  seen.stop();
  assert.deepEqual(calls.slice(0, 2), [[null, null], ["25", known.etag]]);
  assert.deepEqual([seen.lists, seen.errors], [[[""]], []]);

  const end = new AbortController();
  for await (const { events } of eventLists({ path, known, signal: end.signal })) { // which has changed since
    assert.deepEqual(events[0].RSVPs, []);
    end.abort();
  }
});

test("the iterator has the lists, and ends with its signal", async () => {
  connectWith(await service.issue("alice"));
  const end = new AbortController();
  let lists = 0;
  for await (const { events } of eventLists({ path, query: { limit: 2 }, signal: end.signal })) {
    assert.equal(events.length, Math.min(lists++, 2));
    if (lists === 4) end.abort();
    else if (events.length < 2) await createEvent({ path, body });
    else break;
  }
  assert.equal(lists, 3);

  setTimeout(() => end.abort(), 200);
  for await (const { events } of eventLists({ path, signal: end.signal })) assert.equal(events.length, 2);
  const late = watch({ signal: end.signal });
  await new Promise((next) => setTimeout(next, 200));
  assert.deepEqual(late.lists, []);
});

test("what the user cannot mend is told and tried again, what ends the watch ends it", async () => {
  const session = await service.issue("alice");
  let refusals = 0;
  connectWith(session, (send) => (input, init) => refusals-- > 0 ? Promise.reject(new TypeError("fetch failed")) : send(input, init));
  refusals = 2;
  const seen = watch();
  await eventually(() => seen.lists.length === 1);
  assert.deepEqual(seen.errors.map(([error, ended]) => [error.constructor, ended]), [[TypeError, false], [TypeError, false]]);

  await fetchWithCookies(session)(`${service.address}/sign-out`, { method: "POST" });
  const bob = fetchWithCookies(await service.issue("bob"));
  await bob(`${service.address}/api/event/${path.id}`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  });
  await eventually(() => seen.errors.length === 3);
  const [error, ended] = seen.errors[2];
  assert.ok(error instanceof CallError);
  assert.deepEqual([error.status, error.code, ended], [401, "invalid_token", true]);

  for (const [bad, code] of [[{ id: ".." }, "validation_failed"], [{ id: "x".repeat(129) }, "validation_failed"]]) {
    await assert.rejects(eventLists({ path: bad }).next(), { name: "CallError", status: 400, code });
  }
});

test("where somebody ends waits the watch waits for less, and stays live", async () => {
  const waits = [];
  let away = false, restart = [0, 25]; // the service is away for a call once a wait has ended
  connectWith(await service.issue("alice"), (send) => async (input, init) => {
    const wait = Number(new URL(input.url).searchParams.get("wait"));
    if (input.method === "GET") waits.push(wait);
    const bad = () => new Response("<h1>upstream request timeout</h1>", { status: 504, headers: { "Content-Type": "text/html" } });
    if (away) return bad();
    if (waits.length === restart.length + 1) throw new TypeError("fetch failed");
    if (wait <= 10) return send(input, init);
    await new Promise((next) => setTimeout(next, 1_100));
    return bad();
  });
  const seen = watch();
  await eventually(() => waits.includes(6));
  await createEvent({ path, body });
  await eventually(() => seen.lists.length === 2);
  assert.deepEqual(waits.slice(0, 9), [...restart, 0, 0, 25, 0, 12, 0, 6]);
  assert.deepEqual([seen.errors.length, seen.statuses.map(({ status }) => status)], [1, ["connecting", "live", "offline", "live"]]);
  away = true;
  await fetchWithCookies(await service.issue("bob"))(`${service.address}/api/event/${path.id}`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  });
  await eventually(() => seen.statuses.at(-1).status === "offline");
  seen.stop();

  away = false;
  const own = watch({ waitSeconds: 3 });
  await eventually(() => waits.includes(3));
  own.stop();
});

test("a Retry-After of months is waited for an hour, and not for no time", async () => {
  connectWith(await service.issue("alice"), () => async () => new Response("{}", { status: 503, headers: { "Retry-After": "9999999" } }));
  const pauses = [], setTimer = globalThis.setTimeout;
  globalThis.setTimeout = (run, pause, ...rest) => {
    pauses.push(pause);
    return setTimer(run, pause, ...rest);
  };
  const end = new AbortController();
  try {
    const seen = watch({ signal: end.signal });
    await eventually(() => seen.errors.length === 1 && pauses.some((pause) => pause >= 3_600_000));
    assert.equal(Math.max(...pauses), 3_600_000);
  } finally {
    globalThis.setTimeout = setTimer;
    end.abort();
  }
});

test("signing out ends it at once, although the call waits", async () => {
  connectWith(await service.issue("alice"));
  const seen = watch();
  await eventually(() => seen.lists.length === 1);
  await new Promise((next) => setTimeout(next, 200));
  await signOut();
  await eventually(() => seen.errors.length === 1);
  assert.deepEqual([seen.errors[0][0].code, seen.errors[0][1]], ["no_token", true]);
});

test("a callback that throws does not end the watch", async () => {
  connectWith(await service.issue("alice"));
  const thrown = [];
  const listeners = process.listeners("uncaughtException");
  process.removeAllListeners("uncaughtException");
  process.on("uncaughtException", (error) => thrown.push(error.message));
  let lists = 0;
  const stop = watchEvents({ path }, { onList: () => { throw new Error(`list ${++lists}`); } });
  try {
    await eventually(() => lists === 1);
    await createEvent({ path, body });
    await eventually(() => lists === 2);
    assert.deepEqual(thrown, ["list 1", "list 2"]);
  } finally {
    stop();
    process.removeAllListeners("uncaughtException");
    for (const listener of listeners) process.on("uncaughtException", listener);
  }
});

const list = (etag, name = "x") => new Response(
  JSON.stringify({ events: [{ ...body, id: "1", name, RSVPs: [] }] }),
  { headers: { "Content-Type": "application/json", ...(etag && { ETag: etag }) } });

test("it says whether it is live, since when, and what went wrong", async () => {
  const began = new Date();
  let answer = () => list('W/"1"');
  const client = createClient({ baseUrl: service.address, fetch: async () => answer() });
  const seen = watch({ client });
  const said = () => seen.statuses.map(({ status }) => status);
  await eventually(() => said().at(-1) === "live");
  const down = Date.now();
  answer = () => new Response("<h1>Bad Gateway</h1>", { status: 502 });
  await eventually(() => seen.errors.length > 1);
  const { since, error } = seen.statuses.at(-1);
  assert.ok(since >= down && since <= Date.now() && seen.statuses[0].since >= began);
  assert.deepEqual([error.name, error.status], ["CallError", 502]);
  assert.deepEqual(said(), ["connecting", "live", "offline"], "the same failure again is no news");
  answer = () => list('W/"1"');
  await eventually(() => said().length === 4);
  assert.deepEqual([said()[3], seen.statuses[3].error], ["live", undefined]);
  answer = () => Response.json({ error: "Not authenticated", code: "no_token", requestId: "1" }, { status: 401 });
  await eventually(() => said().at(-1) === "ended");
  assert.equal(seen.statuses.at(-1).error.code, "no_token");

  const end = new AbortController(), statuses = [];
  answer = () => list('W/"1"');
  for await (const _ of eventLists({ client, path, signal: end.signal, onStatus: ({ status }) => statuses.push(status) })) {
    await eventually(() => statuses.length === 2);
    end.abort();
  }
  assert.deepEqual(statuses, ["connecting", "live"], "a caller who stops knows it");
});

test("a list that is too long ends it, and its pages go on", async () => {
  const fields = { limit: "must be smaller, since the list would have more than 32 MiB" };
  const next = `<${service.address}/api/event/${path.id}?limit=100&cursor=behind>; rel="next"`;
  const tooLong = (link) => Response.json({ error: "The request does not fit the contract", code: "validation_failed", requestId: "1", fields },
    { status: 400, headers: link ? { Link: link } : {} });
  const calls = [];
  const client = createClient({ baseUrl: service.address, fetch: async ({ url }) => {
    const { searchParams } = new URL(url);
    calls.push(searchParams.get("wait"));
    if (searchParams.has("limit")) return searchParams.has("cursor") ? list('W/"2"', "behind") : tooLong(next);
    return calls.length === 1 ? list('W/"1"') : tooLong();
  } });
  const seen = watch({ client });
  await eventually(() => seen.statuses.at(-1)?.status === "ended");
  assert.deepEqual(calls, [null, "25"], "it has asked again");
  assert.equal(seen.lists.length, 1);
  const [[error, ended]] = seen.errors;
  assert.deepEqual([error.status, error.code, error.fields, ended], [400, "validation_failed", fields, true]);
  assert.equal(seen.statuses.at(-1).error, error);

  const { data, ...result } = await listEvents({ client, path, query: { limit: 100 } });
  assert.deepEqual([data, result.error.fields, nextPage(result)], [undefined, fields, { cursor: "behind" }]);
  const behind = await listEvents({ client, path, query: { limit: 100, ...nextPage(result) } });
  assert.equal(behind.data.events[0].name, "behind");
});

/** What an ingress or a firewall says for a few seconds while the service is deployed. */
const foreign = {
  "404 of an ingress": () => new Response("<h1>404 Not Found</h1>", { status: 404, headers: { "Content-Type": "text/html" } }),
  "403 of a firewall": () => new Response("<h1>Request blocked</h1>", { status: 403, headers: { "Content-Type": "text/html" } }),
  "401 of a gateway": () => Response.json({ message: "Unauthorized" }, { status: 401 }),
  "401 of a gateway with a code of its own": () => Response.json({ error: "x", code: "AUTH_REQUIRED", requestId: "1" }, { status: 401 }),
  "400 of a balancer": () => new Response("", { status: 400 }),
  "404 with a code of the contract's 401": () => Response.json({ error: "x", code: "no_token", requestId: "1" }, { status: 404 }),
  "410 with Retry-After": () => new Response("", { status: 410, headers: { "Retry-After": "1" } }),
};

describe("what is not the service's word does not end it", { concurrency: true }, () => {
  for (const [name, answer] of Object.entries(foreign)) {
    test(name, async () => {
      let calls = 0, asked = 0;
      const seen = watch({ client: createClient({
        baseUrl: service.address, onSignInNeeded: () => asked++,
        fetch: async () => ++calls === 2 ? answer() : list(`W/"${calls}"`, `${calls}`),
      }) });
      await eventually(() => seen.lists.length > 1);
      seen.stop();
      assert.deepEqual(seen.errors.map(([, ended]) => ended), [false]);
      assert.equal(asked, 0);
    });
  }
});

/** Services that never wait, and how many lists they have. */
const hasty = {
  "304 at once": [() => new Response(null, { status: 304 }), 1],
  "200 with the same ETag": [() => list('W/"1"'), 1],
  "200 without an ETag": [() => list(), 1],
  "200 with ever new ETags": [(n) => list(`W/"${n}"`, `${n}`), Infinity],
  "200 of ever new lists without an ETag": [(n) => list(undefined, `${n}`), Infinity],
  "304 that says to come back at once": [() => new Response(null, { status: 304, headers: { "Retry-After": "0" } }), 1],
  "502 of a proxy": [() => new Response("<h1>Bad Gateway</h1>", { status: 502 }), 1],
  "503 with Retry-After: 0": [() => Response.json(
    { error: "Overloaded", code: "overloaded", requestId: "1" }, { status: 503, headers: { "Retry-After": "0" } }), 1],
  "no network": [() => Promise.reject(new TypeError("fetch failed")), 1],
};

describe("it paces itself", { concurrency: true }, () => {
  for (const [name, [answer, most]] of Object.entries(hasty)) {
    test(name, async () => {
      let calls = 0;
      const client = createClient({ baseUrl: service.address, fetch: async () => ++calls === 1 ? list('W/"1"') : answer(calls) });
      const seen = watch({ client });
      await new Promise((next) => setTimeout(next, 4_000));
      seen.stop();
      assert.ok(calls > 1, "it goes on");
      // Twice as many as it makes when nothing delays it: a 503 is repeated twice each time.
      assert.ok(calls <= 24, `${calls} calls in 4 seconds`);
      assert.ok(seen.lists.length >= 1 && seen.lists.length <= most, `${seen.lists.length} lists`);
      const before = calls;
      await new Promise((next) => setTimeout(next, 1_000));
      assert.equal(calls, before, "a watch that was stopped calls");
    });
  }
});

test("a page without Web Locks polls", async () => {
  globalThis.document = {};
  const urls = [];
  connectWith(await service.issue("alice"), (send) => (input, init) => (urls.push(input.url), send(input, init)));
  const seen = watch();
  await eventually(() => seen.lists.length === 1);
  await createEvent({ path, body }); // its own write it sees at once
  await eventually(() => seen.lists.length === 2);
  seen.stop();
  assert.ok(urls.every((url) => !url.includes("wait=")), urls.join("\n"));
});

test("a page without Web Locks that has written while it asked asks again at once", async () => {
  globalThis.document = {};
  let arrive;
  const arrived = new Promise((resolve) => (arrive = resolve));
  const asked = [];
  connectWith(await service.issue("alice"), (send) => async (input, init) => {
    const response = await send(input, init);
    if (input.method === "GET" && asked.push(Date.now()) === 1) await arrived; // a list from before the write
    return response;
  });
  const seen = watch();
  await eventually(() => asked.length === 1);
  await createEvent({ path, body });
  arrive();
  await eventually(() => seen.lists.length === 2);
  seen.stop();
  assert.ok(asked[1] - asked[0] < 4_000, `${asked[1] - asked[0]} ms`); // otherwise it would be 5 s
});
