// What clients rely on, asked of the real service and of worldevents-client/mock alike, so that the two cannot differ: every operation,
// each status that the contract names, and the headers. Each test compares whole responses, and runs once against each of the two.
import assert from "node:assert/strict";
import net from "node:net";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { after, before, describe, test } from "node:test";
import { setupServer } from "msw/node";
import { limits, reasonOf } from "worldevents-client";
import { mock } from "worldevents-client/mock";
import { cases } from "../../../tests/clients/cases.mjs";
import { eventually, startOwner, startService } from "../../../tests/browser/service.mjs";

const kinds = { "the service": startReal, "the mock": startMocks };

/**
 * Four of a kind: `usual`; `late`, where two sessions are allowed to a user and every spent refresh token comes back after the leeway;
 * `limited`, which fails when it is told to; and `owned`, which asks `owner` who may come in.
 */
async function startReal() {
  const system = await startOwner(owner.access);
  const [owned, usual, late, limited] = await Promise.all([
    startService({ WORLD_ACCESS_URL: system.url }),
    startService(),
    startService({ SESSIONS_PER_USER: "2", REFRESH_REUSE_LEEWAY: "1ns" }),
    startService({ WRITE_RATE: "0.001", MAX_IN_FLIGHT: "1" }),
  ]);
  contract = await (await fetch(`${usual.address}/openapi.json`)).json();
  Object.assign(late, { passLeeway() {} });
  Object.assign(limited, {
    failing: {
      /** The limit of writes: nobody may make a second one. */
      429: async () => () => {},
      /** Somebody refreshes while the database is locked, and is all that may be in flight. Whoever is refused tries again. */
      async 503() {
        const { hostname, port } = new URL(limited.address);
        const { refreshToken } = await limited.issue("bob");
        const database = new DatabaseSync(limited.database);
        database.exec("BEGIN IMMEDIATE");
        let socket;
        const hold = () => {
          socket = net.connect(port, hostname);
          socket.write(`GET /api/auth/refresh HTTP/1.1\r\nHost: ${hostname}\r\nCookie: refreshToken=${refreshToken}\r\n\r\n`);
          socket.once("data", () => {
            socket.destroy();
            hold();
          });
        };
        hold();
        return () => {
          socket.destroy();
          database.close();
        };
      },
      /** Somebody takes a table away. */
      async 500() {
        const database = new DatabaseSync(limited.database);
        database.exec("ALTER TABLE rsvps RENAME TO away");
        return () => {
          database.exec("ALTER TABLE away RENAME TO rsvps");
          database.close();
        };
      },
    },
  });
  const all = { usual, late, limited, owned };
  return { ...all, end: () => Promise.all([...Object.values(all).map((service) => service.stop()), system.stop()]) };
}

async function startMocks() {
  const make = (name, options) => {
    let ahead = 0; // of the clock, in milliseconds
    const address = `http://${name}.example`;
    const service = mock({ baseUrl: address, now: () => Date.now() + ahead, ...options });
    return {
      address,
      handlers: service.handlers,
      issue: async (username) => service.issue(username),
      expired(session) {
        service.expireTokens();
        return session;
      },
      /** The JWT lives for 15 minutes. */
      expiresIn(session, seconds) {
        ahead += (15 * 60 - seconds) * 1000 - 999;
        return session;
      },
      passLeeway: () => void (ahead += 61_000),
      remove: async (event) => service.remove(event),
      failing: {
        429: async () => (service.fail("leaveEvent", { status: 429 }), () => {}),
        503: async () => (service.fail("listEvents", { status: 503 }), () => {}),
        500: async () => (service.fail("createEvent", { status: 500 }), () => {}),
      },
    };
  };
  const all = { usual: make("usual"), late: make("late", { sessionsPerUser: 2 }), limited: make("limited"), owned: make("owned", { access: owner.access }) };
  const server = setupServer(...Object.values(all).flatMap(({ handlers }) => handlers));
  server.listen({ onUnhandledRequest: "error" });
  return { ...all, end: () => server.close() };
}

/** The system that owns the worlds: what it was asked, and whom it lets in. */
const owner = {
  asked: [],
  may: () => true,
  access(...question) {
    owner.asked.push(question);
    return owner.may(...question);
  },
};

/** The contract, as the service publishes it, and the statuses that each of its operations has had, by kind. */
let contract;
const seen = {};

/** The headers that a client may rely on. */
const relied = [
  "allow", "cache-control", "content-type", "etag", "event-id", "idempotency-key", "link", "retry-after", "session-expires", "session-user", "vary",
];
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/**
 * Calls a service, and returns what its response has: `status`, the headers of `relied`, the attributes of cookies, and the body, each
 * without what differs each time. `values` has that.
 */
async function call(service, method, path, { session, cookie = session && cookiesOf(session), headers, body, signal } = {}) {
  const isText = body === undefined || typeof body === "string" || body instanceof Uint8Array;
  const response = await fetch(service.address + path, {
    method, signal, body: isText ? body : JSON.stringify(body),
    headers: { ...(cookie !== undefined && { Cookie: cookie }), ...(!isText && { "Content-Type": "application/json" }), ...headers },
  });
  const text = await response.text();
  const operation = `${method} ${path.split("?")[0].replace(/(\/api\/event\/(?:join\/)?)[^/]+$/, "$1{id}")}`;
  (service.statuses[operation] ??= new Set()).add(response.status);
  const values = { text };
  const shown = { status: response.status, headers: {}, cookies: [] };
  for (const name of relied.filter((name) => response.headers.has(name))) shown.headers[name] = response.headers.get(name);

  const requestId = response.headers.get("X-Request-Id");
  if (response.headers.get("Content-Type")?.startsWith("text/")) shown.body = text;
  else {
    assert.match(requestId, uuid);
    if (text) shown.body = JSON.parse(text);
  }
  if (shown.body?.requestId) {
    assert.equal(shown.body.requestId, requestId);
    delete shown.body.requestId;
  }
  const vary = (name, pattern, placeholder) => {
    if (!shown.headers[name]) return;
    assert.match(shown.headers[name], pattern);
    values[name] = shown.headers[name];
    shown.headers[name] = placeholder(values[name]);
  };
  vary("etag", /^W\/"[\w-]{22,36}"$/, () => "ETAG");
  vary("event-id", uuid, () => "ID");
  vary("link", /cursor=[\w-]+>; rel="next"$/, (link) => link.replace(service.address, "BASE").replace(/cursor=[\w-]+/, "cursor=CURSOR"));
  vary("session-expires", /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000Z$/, () => "EXPIRES");
  for (const line of response.headers.getSetCookie()) {
    const [, name, value, attributes] = line.match(/^([^=]*)=([^;]*)(.*)$/);
    if (value) values[name] = value;
    shown.cookies.push(`${name}=${value && "VALUE"}${attributes}`);
  }
  return Object.defineProperty(shown, "values", { value: values, enumerable: false });
}

const cookiesOf = ({ token, refreshToken }) => `token=${token}; refreshToken=${refreshToken}`;

// What responses look like.
const json = { "content-type": "application/json" };
const noStore = { "cache-control": "no-store" };
const vary = { vary: "Cookie, Origin" };
const attributes = (maxAge) => `; Path=/; Max-Age=${maxAge}; HttpOnly; SameSite=Lax`;
const bothCookies = ["token", "refreshToken"].map((name) => `${name}=VALUE${attributes(30 * 24 * 3600)}`);
const noCookies = ["token", "refreshToken"].map((name) => `${name}=${attributes(0)}`);

const signedIn = (body, user = "alice", cookies = []) => (
  { status: 200, headers: { ...noStore, ...json, "session-expires": "EXPIRES", "session-user": user, ...vary }, cookies, body });
const refused = (body) => ({ status: 400, headers: { ...noStore, ...json, ...vary }, cookies: [], body });
const error = (status, code, text, { headers, ...more } = {}) => (
  { status, headers: { ...noStore, ...json, ...vary, ...headers }, cookies: [], body: { error: text, code, ...more } });
const done = (headers) => ({ status: 200, headers: { ...json, ...vary, ...headers }, cookies: [], body: { success: true } });
const created = done({ "event-id": "ID" });
const listHeaders = (link) => (
  { "cache-control": "private, no-cache", etag: "ETAG", ...(link && { link }), vary: "Cookie, Origin, Accept-Encoding" });
const listed = (events, link) => ({ status: 200, headers: { ...json, ...listHeaders(link) }, cookies: [], body: { events } });
const unchanged = (link) => ({ status: 304, headers: listHeaders(link), cookies: [] });

const active = { authenticated: true };
const inactive = (error) => refused({ authenticated: false, error });
const unauthorized = (code) => error(401, code, "Not authenticated");
/** Each field has a code and a message. */
const invalid = (faults) => error(400, "validation_failed", "The request does not fit the contract", {
  fields: mapped(faults, ([, message]) => message), fieldCodes: mapped(faults, ([code]) => code),
});
const mapped = (object, to) => Object.fromEntries(Object.entries(object).map(([name, value]) => [name, to(value, name)]));
const tooLarge = error(413, "body_too_large", "The body is larger than 64 KiB, or does not end");
const forbidden = error(403, "forbidden", "The owner of this world does not let you do this");
const noEvent = error(404, "event_not_found", "No such event");

const messages = {
  id: "must be 1 to 128 characters without control characters, in UTF-8, and not . or ..",
  name: "must be 1 to 200 characters, not only white space, without control characters",
  description: "must be 0 to 5000 characters, without control characters other than tab and line breaks",
  scheduledAt: "must be an RFC 3339 date-time with Z or an offset up to 14:00, in UTC within the years 1970 to 9999",
  from: "must be an RFC 3339 date-time with Z or an offset up to 14:00, in UTC within the years 1970 to 9999",
  to: "must be an RFC 3339 date-time with Z or an offset up to 14:00, in UTC within the years 1970 to 9999",
  limit: "must be a whole number from 1 to 1000",
  wait: "must be a whole number from 1 to 50",
  cursor: "must be a cursor from the Link of this world's list",
};
const of = (codes) => mapped(codes, (code, name) => [code, messages[name]]);
/** An object with the same members, in an order of its own. The client gives a reason where the contract has no code. */
const same = (got, want, message) => {
  assert.deepEqual(sorted(got), sorted(want), message);
  const reason = want.status === 400 && !want.body.code ? want.body.error?.toLowerCase().replaceAll(" ", "_") : undefined;
  assert.equal(reasonOf({ error: got.body, response: got }), reason, message);
};
const sorted = ({ headers, ...rest }) => ({ ...rest, headers: Object.fromEntries(Object.entries(headers).sort()) });

const event = { name: "Boat trip", description: "Bring a coat.", scheduledAt: "2030-06-01T10:00:00+02:00" };
const rsvps = (...usernames) => usernames.map((username) => ({ user: { username } }));

for (const [kind, start] of Object.entries(kinds)) {
  describe(kind, () => {
    let usual, late, limited, owned, end, worlds = 0, users = 0;
    before(async () => {
      ({ usual, late, limited, owned, end } = await start());
      seen[kind] = {};
      for (const service of [usual, late, limited, owned]) service.statuses = seen[kind];
    });
    after(() => end?.());

    const newWorld = () => `world-${++worlds}`;
    /** Somebody new, whom nothing of an earlier test can touch. */
    const newUser = () => `user-${++users}`;
    const session = (options) => call(usual, "GET", "/api/auth/session", options);
    const refresh = (options, service = usual) => call(service, "GET", "/api/auth/refresh", options);
    const list = (world, options, service = usual) => call(service, "GET", `/api/event/${world}`, options);
    const create = (world, session, body = event, service = usual) => call(service, "POST", `/api/event/${world}`, { session, body });
    const signOut = (options, service = usual) => call(service, "POST", "/sign-out", options);

    /** Creates an event, and returns its id. */
    async function createdId(world, session, body) {
      const answer = await create(world, session, { ...event, ...body });
      same(answer, created);
      return answer.values["event-id"];
    }

    test("a session is active, whoever has it", async () => {
      for (const user of ["alice", "ünï çødé 😀", "a/b?c&d=e+f%20", "!'()*;,:@$", "\uFEFF"]) {
        const encoded = encodeURIComponent(user).replace(/[!'()*]/g, (c) => `%${c.charCodeAt().toString(16).toUpperCase()}`);
        const answer = await session({ session: await usual.issue(user) });
        assert.equal(decodeURIComponent(answer.headers["session-user"]), user);
        same(answer, signedIn(active, encoded.replace(/%(24|26|2B|3D|3A|40)/g, decodeURIComponent)));
        const left = new Date(answer.values["session-expires"]) - Date.now();
        if (usual.handlers === undefined) assert.ok(left > 0 && left <= 15 * 60_000, `${left}`);
      }
    });

    test("without a valid token nobody is signed in, and event operations say why", async () => {
      const { token, refreshToken } = await usual.issue(newUser());
      const other = await usual.issue(newUser());
      for (const [cookie, text, code] of [
        [undefined, "No token", "no_token"],
        ["", "No token", "no_token"],
        ["token=", "No token", "no_token"],
        [`refreshToken=${refreshToken}`, "No token", "no_token"],
        [`Token=${token}`, "No token", "no_token"],
        ["token=x", "Invalid token", "invalid_token"],
        ["token=eyJhbGciOiJub25lIn0.e30.", "Invalid token", "invalid_token"],
        [`token=${token}x; refreshToken=${refreshToken}`, "Invalid token", "invalid_token"],
        [`token=${token}; token=${other.token}`, "Invalid token", "invalid_token"],
        [`token=${token}; token=`, "Invalid token", "invalid_token"],
      ]) {
        same(await session({ cookie }), inactive(text), cookie);
        same(await list("plaza", { cookie }), unauthorized(code), cookie);
        same(await call(usual, "POST", "/api/event/plaza", { cookie, body: "{" }), unauthorized(code), cookie);
        same(await call(usual, "POST", "/api/event/join/x", { cookie }), unauthorized(code), cookie);
        same(await call(usual, "DELETE", "/api/event/x", { cookie }), unauthorized(code), cookie);
      }
      same(await session({ cookie: `theme=dark; token=${token};token=${token}` }), signedIn(active, (await session({ cookie: `token=${token}` })).headers["session-user"]));
      same(await refresh({ session: { token, refreshToken } }), { ...signedIn({ success: true }, `user-${users - 1}`), cookies: bothCookies });
    });

    test("an expired token is refreshed by getSession alone", async () => {
      const user = newUser();
      const old = usual.expired(await usual.issue(user));
      same(await list("plaza", { session: old }), unauthorized("token_expired"));
      same(await create("plaza", old), unauthorized("token_expired"));
      same(await session({ cookie: `token=${old.token}` }), inactive("No refresh token"));
      for (const bad of ["x", "0".repeat(128), old.refreshToken.toUpperCase(), `${old.refreshToken}; refreshToken=${"0".repeat(128)}`]) {
        same(await session({ cookie: `token=${old.token}; refreshToken=${bad}` }), inactive("Invalid refresh token"), bad);
      }
      const answer = await session({ session: old });
      same(answer, signedIn(active, user, bothCookies));
      const { token, refreshToken } = answer.values;
      assert.match(refreshToken, /^[0-9a-f]{128}$/);
      assert.notEqual(refreshToken, old.refreshToken);
      assert.notEqual(token, old.token);
      same(await list(newWorld(), { session: answer.values }), listed([]));
      same(await session({ session: answer.values }), signedIn(active, user));
      same(await session({ session: old }), inactive("Invalid refresh token"), "a second tab");
      same(await refresh({ session: answer.values }), signedIn({ success: true }, user, bothCookies), "which did no harm");
    });

    test("another user's refresh token refreshes nothing, and is not spent", async () => {
      const [mine, others] = [await usual.issue(newUser()), await usual.issue(newUser())];
      const mixed = { token: usual.expired(mine).token, refreshToken: others.refreshToken };
      same(await session({ session: mixed }), inactive("Invalid refresh token"));
      same(await refresh({ session: mixed }), signedIn({ success: true }, `user-${users}`, bothCookies), "refreshSession does not read the JWT");
    });

    test("refreshSession replaces both cookies, or says why not", async () => {
      const user = newUser();
      const first = await usual.issue(user);
      for (const [cookie, text] of [
        [undefined, "No refresh token"],
        ["refreshToken=", "No refresh token"],
        [`token=${first.token}`, "No refresh token"],
        ["refreshToken=x", "Invalid refresh token"],
        [`refreshToken=${"0".repeat(128)}`, "Invalid refresh token"],
        [`refreshToken=${first.refreshToken}; refreshToken=x`, "Invalid refresh token"],
      ]) same(await refresh({ cookie }), refused({ error: text }), cookie);
      const answer = await refresh({ cookie: `refreshToken=${first.refreshToken}` });
      same(answer, signedIn({ success: true }, user, bothCookies));
      assert.equal(answer.values.refreshToken.slice(0, 32), first.refreshToken.slice(0, 32));
    });

    test("of many refreshes at once one wins, and the losers do no harm", async () => {
      const user = newUser();
      const old = usual.expired(await usual.issue(user));
      const answers = await Promise.all(Array.from({ length: 10 }, (_, i) => (i % 2 ? refresh : session)({ session: old })));
      const winners = answers.filter(({ status }) => status === 200);
      assert.equal(winners.length, 1);
      for (const answer of answers.filter(({ status }) => status !== 200)) {
        same(answer, refused({ ...("authenticated" in answer.body && { authenticated: false }), error: "Invalid refresh token" }));
      }
      same(await list(newWorld(), { session: winners[0].values }), listed([]));
      same(await refresh({ session: winners[0].values }), signedIn({ success: true }, user, bothCookies));
    });

    test("a spent refresh token that comes back after the leeway revokes its session, and no other", async () => {
      for (const refreshes of [1, 20]) {
        const user = newUser();
        const [stolen, other] = [await late.issue(user), await late.issue(user)];
        let current = stolen;
        for (let i = 0; i < refreshes; i++) current = (await refresh({ session: current }, late)).values;
        late.passLeeway();
        same(await list(newWorld(), { session: current }, late), listed([]));
        same(await refresh({ session: stolen }, late), refused({ error: "Invalid refresh token" }));
        same(await list("plaza", { session: current }, late), unauthorized("invalid_token"));
        same(await create("plaza", current, event, late), unauthorized("invalid_token"));
        same(await call(late, "POST", "/api/event/join/x", { session: current }), unauthorized("invalid_token"));
        same(await call(late, "DELETE", "/api/event/x", { session: current }), unauthorized("invalid_token"));
        same(await call(late, "POST", "/api/event/plaza", { session: current, body: {} }), invalid(required), "validation comes first");
        same(await list("plaza?cursor=AAAA", { session: current }, late), invalid(of({ cursor: "cursor" })));
        same(await call(late, "GET", "/api/auth/session", { session: current }), signedIn(active, user), "which does not look");
        same(await refresh({ session: current }, late), refused({ error: "Invalid refresh token" }));
        same(await refresh({ session: other }, late), signedIn({ success: true }, user, bothCookies));
      }
    });

    test("a refresh token that was spent more than 16 refreshes ago revokes the session at once", async () => {
      const stolen = await usual.issue(newUser());
      let current = stolen;
      for (let i = 0; i < 17; i++) current = (await refresh({ session: current })).values;
      same(await list(newWorld(), { session: current }), listed([]));
      same(await refresh({ session: stolen }), refused({ error: "Invalid refresh token" }));
      same(await list("plaza", { session: current }), unauthorized("invalid_token"));
    });

    test("a newer sign-in takes the refresh token of the session refreshed longest ago, whose JWT lives on", async () => {
      const user = newUser();
      const [first, second] = [await usual.issue(user), await usual.issue(user)];
      same(await refresh({ session: first }), refused({ error: "Invalid refresh token" }));
      same(await list(newWorld(), { session: first }), listed([]));
      same(await refresh({ session: second }), signedIn({ success: true }, user, bothCookies), "which did no harm");

      const sessions = [await late.issue(user), await late.issue(user)];
      sessions[0] = (await refresh({ session: sessions[0] }, late)).values;
      sessions.push(await late.issue(user));
      const statuses = [];
      for (const session of sessions) statuses.push((await refresh({ session }, late)).status);
      assert.deepEqual(statuses, [200, 400, 200]);
    });

    test("signing out ends the session that is sent, and clears both cookies", async () => {
      const out = { status: 204, headers: { ...noStore, ...vary }, cookies: noCookies };
      same(await signOut(), out);
      same(await signOut({ cookie: `token=x; refreshToken=${"0".repeat(128)}` }), out);

      const user = newUser();
      for (const sent of [
        ({ refreshToken }) => `refreshToken=${refreshToken}`,
        ({ token }) => `token=${token}`,
        cookiesOf,
        ({ token, refreshToken }) => `token=${token}; refreshToken=${"0".repeat(128)}; other=${refreshToken}`,
      ]) {
        const [ended, other] = [await late.issue(user), await late.issue(user)];
        same(await signOut({ cookie: sent(ended) }, late), out);
        same(await list("plaza", { session: ended }, late), unauthorized("invalid_token"));
        same(await refresh({ session: ended }, late), refused({ error: "Invalid refresh token" }));
        same(await list(newWorld(), { session: other }, late), listed([]));
      }

      const [spent, other] = [await late.issue(user), await late.issue(user)];
      const current = (await refresh({ session: spent }, late)).values;
      same(await signOut({ session: spent, body: "everywhere=true", headers: { "Content-Type": "application/x-www-form-urlencoded" } }, late), out);
      for (const session of [current, other]) same(await list("plaza", { session }, late), unauthorized("invalid_token"));
    });

    test("everywhere ends all sessions of the user, if a live one asks", async () => {
      const user = newUser();
      const form = { body: "everywhere=true", headers: { "Content-Type": "application/x-www-form-urlencoded" } };
      const [ended, other] = [await late.issue(user), await late.issue(user)];
      await signOut({ session: ended }, late);
      await signOut({ session: ended, ...form }, late);
      same(await list(newWorld(), { session: other }, late), listed([]));
      const third = await late.issue(user);
      await signOut({ cookie: `refreshToken=${third.refreshToken}`, ...form }, late);
      same(await list("plaza", { session: other }, late), unauthorized("invalid_token"));
    });

    test("an event is created with its creator's RSVP", async () => {
      const [world, user] = [newWorld(), newUser()];
      const alice = await usual.issue(user);
      const id = await createdId(world, alice, { color: "red", joined: ["bob"], id: "x", Name: "other" });
      const dates = [
        ["2030-01-02t03:04:05z", "2030-01-02T03:04:05.000Z"], ["1969-12-31T23:00:00.9999-01:00", "1970-01-01T00:00:00.999Z"],
        ["9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999Z"], ["2028-02-29T14:00:00.5+14:00", "2028-02-29T00:00:00.500Z"],
        ["0001-01-01T00:00:00Z"], ["2030-01-02T03:04:05-00:00", "2030-01-02T03:04:05.000Z"],
      ].filter(([, date]) => date);
      const expected = [{ id, ...event, scheduledAt: "2030-06-01T08:00:00.000Z", RSVPs: rsvps(user) }];
      for (const [given, scheduledAt] of dates) {
        expected.push({ id: await createdId(world, alice, { scheduledAt: given }), ...event, scheduledAt, RSVPs: rsvps(user) });
      }
      const order = ({ scheduledAt, id }) => scheduledAt + id;
      expected.sort((a, b) => (order(a) < order(b) ? -1 : 1));
      same(await list(world, { session: alice }), listed(expected));
      assert.deepEqual(Object.keys(JSON.parse((await list(world, { session: alice })).values.text).events[0]),
        ["id", "name", "description", "scheduledAt", "RSVPs"]);
    });

    const required = mapped({ name: "", description: "", scheduledAt: "" }, () => ["required", "is required"]);

    test("with an Idempotency-Key an event is created once", async () => {
      const [world, user] = [newWorld(), newUser()];
      const [alice, bob] = [await usual.issue(user), await usual.issue(newUser())];
      const ask = (key, { session = alice, to = world, ...change } = {}) => call(usual, "POST", `/api/event/${to}`, {
        session, body: { ...event, ...change }, headers: { "Idempotency-Key": key },
      });
      const accepted = done({ "event-id": "ID", "idempotency-key": "accepted" });
      const conflict = error(409, "idempotency_conflict", "Another event was created with this Idempotency-Key");
      const [first, ...others] = await Promise.all(Array.from({ length: 5 }, () => ask("a,\"b\"")));
      same(first, accepted);
      const id = first.values["event-id"];
      for (const other of others) assert.equal((same(other, accepted), other.values["event-id"]), id);
      same(await ask("a,\"b\"", { color: "red", scheduledAt: "2030-06-01T08:00:00.0009Z" }), accepted, "the same values");
      for (const change of [{ to: newWorld() }, { name: "x" }, { description: "" }, { scheduledAt: "2030-06-01T08:00:00.001Z" }]) {
        same(await ask("a,\"b\"", change), conflict, JSON.stringify(change));
      }
      assert.equal((await list(world, { session: alice })).body.events.length, 1);
      for (const [key, options] of [["A,\"b\"", {}], ["a,\"b\"", { session: bob, name: "x" }], ["!".repeat(255), {}]]) {
        const answer = await ask(key, options);
        same(answer, accepted, key);
        assert.notEqual(answer.values["event-id"], id);
      }
      assert.equal((await list(world, { session: alice })).body.events.length, 4);
      for (const [key, code] of [["", "minLength"], ["a b", "pattern"], ["ä", "pattern"], ["!".repeat(256), "maxLength"], ["a b".repeat(86), "maxLength"]]) {
        const fault = [code, "must be 1 to 255 visible ASCII characters"];
        same(await ask(key, { name: "" }), invalid({ "Idempotency-Key": fault, ...of({ name: "minLength" }) }), key);
      }
      await usual.remove(id);
      same(await ask("a,\"b\"", { name: "x" }), accepted, "the key is free");
    });

    test("every bad field is named at once", async () => {
      const alice = await usual.issue(newUser());
      for (const [world, body, fields] of [
        ["plaza", {}, required],
        ["plaza", { name: null, description: [], scheduledAt: { x: 1 } }, of({ name: "type", description: "type", scheduledAt: "type" })],
        ["%00", { name: " ", description: "\0", scheduledAt: "2030-02-30T00:00:00Z" },
          of({ id: "pattern", name: "pattern", description: "pattern", scheduledAt: "format" })],
        ["%00".repeat(129), { name: "\n".repeat(201), description: "\0".repeat(5001), scheduledAt: "" },
          of({ id: "maxLength", name: "maxLength", description: "maxLength", scheduledAt: "format" })],
        ["plaza", { name: "", description: "\ud83d", scheduledAt: 7 }, of({ name: "minLength", description: "type", scheduledAt: "type" })],
        ["%ff", { Name: "x", description: "" }, { ...of({ id: "format" }), name: ["required", "is required"], scheduledAt: ["required", "is required"] }],
        ["%ff%00", event, of({ id: "format" })],
        ["x".repeat(129), [], { ...of({ id: "maxLength" }), body: ["type", "must be a JSON object"] }],
        ["plaza", "null", { body: ["type", "must be a JSON object"] }],
        ["plaza", '{"__proto__":{"name":"x"},"name":"a\\ud83d","description":"","scheduledAt":"2030-01-01T00:00:00Z"}', of({ name: "type" })],
      ]) {
        const headers = { "Content-Type": "application/json" };
        same(await call(usual, "POST", `/api/event/${world}`, { session: alice, body, headers }), invalid(fields), JSON.stringify(body));
      }
      same(await list("%00", { session: alice }), invalid(of({ id: "pattern" })));
      same(await list(`%ff?from=x&to=2030-02-30T00:00:00Z&limit=1001&cursor=&wait=51`, { session: alice }),
        invalid(of({ id: "format", from: "format", to: "format", limit: "maximum", cursor: "minLength", wait: "maximum" })));
      same(await list("plaza?limit=1&limit=1&wait=&from=2030-01-01T00:00:00Z&from=", { session: alice }),
        invalid({ limit: ["repeated", "must be given once"], from: ["repeated", "must be given once"], ...of({ wait: "type" }) }));
      same(await list("plaza?limit=%ff&from=%ff&cursor=%ff", { session: alice }), invalid(of({ limit: "type", from: "format", cursor: "format" })));
      for (const query of ["limit=1;from=x", "limit=0&a=%zz", "%"]) {
        same(await list(`plaza?${query}`, { session: alice }), invalid({ query: ["format", "must be percent-encoded"] }), query);
      }
      for (const [code, ...bad] of [
        ["type", "1e2", "1.5", "", "+7", "0x10"], ["minimum", "0", "-1", "-9223372036854775809"], ["maximum", "1001", "2147483648", "9223372036854775808"],
      ]) {
        for (const limit of bad) same(await list(`plaza?limit=${limit}`, { session: alice }), invalid(of({ limit: code })), limit);
      }
    });

    test("a body has to be one JSON document", async () => {
      const alice = await usual.issue(newUser());
      const text = JSON.stringify(event);
      const more = (json) => `${text.slice(0, -1)},${json}}`;
      const nested = (depth) => more(`"x":${"[".repeat(depth - 1)}${"]".repeat(depth - 1)}`);
      const malformed = error(400, "malformed_json", "The body is not one JSON document in UTF-8 without duplicate names");
      const unsupported = error(415, "unsupported_media_type", "The body must be application/json in UTF-8");
      const json = "application/json";
      for (const [type, body, want] of [
        [json, "", malformed], [json, "{", malformed], [json, text + text, malformed], [json, `${text}x`, malformed], [json, `\uFEFF${text}`, malformed],
        [json, more('"name":"again"'), malformed], [json, more('"n\\u0061me":"again"'), malformed], [json, more('"x":{"a":1,"b":[],"a":2}'), malformed],
        [json, more('"x":"a\\"b{[","y":{"x":1},"z":[{"x":1},{"x":1}]'), created], [json, more('"x":NaN'), malformed], [json, more('"x":-1E+99999'), created],
        [json, nested(32), created], [json, nested(33), malformed], [json, new Uint8Array([...Buffer.from(more('"x":"')), 0xff, 0x22, 0x7d]), malformed],
        [json, text.padEnd(64 * 1024), created], [json, text.padEnd(64 * 1024 + 1), tooLarge], [json, "{".repeat(64 * 1024 + 1), tooLarge],
        ["Application/JSON; charset=UTF-8", text, created], ['application/json;charset="utf8"', text, created], ["application/json; x=y", text, created],
        ["application/json; charset=latin1", text, unsupported], ["text/plain", text.padEnd(64 * 1024 + 1), unsupported], ["application/jsonp", "{", unsupported],
      ]) {
        const answer = await call(usual, "POST", "/api/event/bodies", { session: alice, body, headers: { "Content-Type": type } });
        same(answer, want, `${type} ${body.slice(-60)}`);
      }
      const encoded = { "Content-Type": json, "Content-Encoding": "identity" };
      same(await call(usual, "POST", "/api/event/bodies", { session: alice, body: text, headers: encoded }), unsupported);
      same(await call(usual, "POST", "/api/event/%00", { session: alice, body: "{", headers: { "Content-Type": json } }), malformed, "before the fields");
    });

    test("the named cases fit or do not", async () => {
      const alice = await usual.issue(newUser());
      const wrong = [];
      for (const [name, { fits, event: body, world = "cases", query = {} }] of Object.entries(cases)) {
        const path = `/api/event/${encodeURIComponent(world)}?${new URLSearchParams(query)}`;
        const { status } = await call(usual, body === undefined ? "GET" : "POST", path, {
          session: alice, ...(body !== undefined && { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } }),
        });
        if (status !== (fits ? 200 : 400)) wrong.push(`${name}: ${status}`);
      }
      assert.deepEqual(wrong, []);
    });

    test("joining and leaving", async () => {
      const [world, [a, b]] = [newWorld(), [newUser(), newUser()]];
      const [alice, bob] = [await usual.issue(a), await usual.issue(b)];
      const id = await createdId(world, alice);
      const join = (session, event = id, options) => call(usual, "POST", `/api/event/join/${event}`, { session, ...options });
      const leave = (session, event = id, options) => call(usual, "DELETE", `/api/event/${event}`, { session, ...options });
      const joined = async () => (await list(world, { session: alice })).body.events[0].RSVPs;
      same(await leave(bob), done());
      for (let i = 0; i < 2; i++) same(await join(bob), done());
      assert.deepEqual(await joined(), rsvps(a, b));
      for (let i = 0; i < 2; i++) same(await leave(alice), done());
      assert.deepEqual(await joined(), rsvps(b));
      same(await join(alice), done());
      assert.deepEqual(await joined(), rsvps(b, a));

      for (const unknown of ["01980000-0000-7000-8000-000000000001", "x", "%ff", id.toUpperCase(), "00000000-0000-0000-0000-000000000000"]) {
        same(await join(alice, unknown), noEvent, unknown);
        same(await leave(alice, unknown), noEvent, unknown);
      }
      for (const body of [{}, "x", "x".repeat(64 * 1024)]) {
        same(await join(alice, id, { body }), done());
        same(await leave(alice, id, { body }), done());
      }
      for (const write of [join, leave]) same(await write(bob, id, { body: "x".repeat(64 * 1024 + 1) }), tooLarge);
      assert.deepEqual(await joined(), rsvps(b));
      await usual.remove(id);
      same(await join(bob), noEvent);
      same(await leave(bob), noEvent);
      same(await list(world, { session: alice }), listed([]));
    });

    test("a list is read whole, in part, and page by page", async () => {
      const [user, world, escaped] = [newUser(), "a/b ü?&=+:@$,;!'()*~%41", "a%2Fb%20%C3%BC%3F&=+:@$%2C%3B%21%27%28%29%2A~%2541"];
      const alice = await usual.issue(user);
      const name = encodeURIComponent(world);
      const events = [];
      for (const [i, scheduledAt] of ["2030-01-01T00:00:00.000Z", "2030-01-01T00:00:00.001Z", "2030-01-01T00:00:00.001Z", "2031-01-01T00:00:00.000Z"].entries()) {
        const body = { name: `Event ${i}`, description: "\t\n\"\\\u2028😀</script>", scheduledAt };
        events.push({ id: await createdId(name, alice, body), ...body, RSVPs: rsvps(user) });
      }
      events.sort((a, b) => (a.scheduledAt + a.id < b.scheduledAt + b.id ? -1 : 1));
      for (const [query, begin, end] of [
        ["", 0, 4], ["color=red&color=blue", 0, 4], ["limit=4", 0, 4], ["limit=1000", 0, 4],
        ["from=2030-01-01T00:00:00.001Z", 1, 4], ["from=2030-01-01T00:00:00.0000001Z", 1, 4], ["to=2030-01-01T00:00:00.001Z", 0, 1],
        ["to=2030-01-01T00:00:00.0000001Z", 0, 1], ["from=2031-01-01T01:00:00%2B01:00", 3, 4], ["from=2031-01-01T00:00:00Z&to=2030-01-01T00:00:00Z", 0, 0],
        ["from=2030-01-01T00:00:00.00100000000Z&to=2031-01-01t00:00:00z", 1, 3], ["to=9999-12-31T23:59:59.9999Z", 0, 4],
      ]) same(await list(`${name}?${query}`, { session: alice }), listed(events.slice(begin, end)), query);

      const link = (query) => `<BASE/api/event/${escaped}?${query}cursor=CURSOR>; rel="next"`;
      const first = await list(`${name}?limit=3`, { session: alice });
      same(first, listed(events.slice(0, 3), link("limit=3&")));
      const next = ({ values }) => values.link.match(/<(.*)>/)[1].slice(usual.address.length);
      same(await call(usual, "GET", next(first), { session: alice }), listed(events.slice(3)));
      const spans = "limit=1&to=2031-01-01T01:00:00%2b01:00&from=2030-01-01T00:00:00Z&color=red";
      const spanned = link("from=2030-01-01T00%3A00%3A00Z&to=2031-01-01T01%3A00%3A00%2B01%3A00&limit=1&");
      let page = await list(`${name}?${spans}`, { session: alice });
      same(page, listed(events.slice(0, 1), spanned));
      page = await call(usual, "GET", next(page), { session: alice });
      same(page, listed(events.slice(1, 2), spanned));
      const cursor = new URLSearchParams(next(page).split("?")[1]).get("cursor");
      same(await list(`${name}?cursor=${cursor}`, { session: alice }), listed(events.slice(2)), "without limit all that follows");
      await usual.remove(events[1].id);
      same(await call(usual, "GET", next(page), { session: alice }), listed(events.slice(2, 3)), "a cursor of an event that is gone works");
      for (const [other, bad] of [[newWorld(), cursor], [name, `${cursor}x`], [name, cursor.slice(1)], [name, "%20"], [name, "%ff"], [name, "AAAA"]]) {
        same(await list(`${other}?cursor=${bad}`, { session: alice }), invalid(of({ cursor: bad === "%ff" ? "format" : "cursor" })), bad);
      }
    });

    test("an ETag stands for the list and its Link", async () => {
      const world = newWorld();
      const alice = await usual.issue(newUser());
      for (let i = 0; i < 2; i++) await createdId(world, alice);
      const ask = (tags, query = "limit=1", session = alice) =>
        list(`${world}?${query}`, { session, headers: tags === undefined ? {} : { "If-None-Match": tags } });
      const page = await ask();
      const { etag } = page.values;
      const same304 = unchanged(page.headers.link);
      for (const tags of [etag, etag.slice(2), "*", `"x", ${etag}`, `"x",${etag} ,"y"`, Array(15).fill('"x"').join() + `,${etag}`]) same(await ask(tags), same304, tags);
      for (const tags of ["", '"x"', etag.slice(3, -1), Array(16).fill('"x"').join() + `,${etag}`]) same(await ask(tags), page, tags);
      const bob = await usual.issue(newUser());
      assert.equal((await ask(undefined, "limit=1", bob)).values.etag, etag, "for everybody");
      assert.equal((await ask(undefined, "limit=1&wait=1")).values.etag, etag, "with wait, too");
      assert.equal((await ask(undefined, "wait=1")).values.etag, (await ask(undefined, "")).values.etag);
      assert.notEqual((await ask(undefined, "")).values.etag, etag);
      same(await list(newWorld(), { session: alice, headers: { "If-None-Match": etag } }), listed([]));
      const { values: { "event-id": id } } = await create(world, alice, { ...event, scheduledAt: "2029-01-01T00:00:00Z" });
      assert.equal((await ask(etag)).body.events[0].id, id);
      await usual.remove(id);
      same(await ask(etag), same304, "as before");
    });

    test("a watch ends when its list changes", async () => {
      const world = newWorld();
      const [alice, bob] = [await usual.issue(newUser()), await usual.issue(newUser())];
      const watch = (etag, query = "", session = alice) => list(`${world}?wait=50${query}`, { session, headers: etag ? { "If-None-Match": etag } : {} });
      const { values: { etag: none } } = await list(world, { session: alice });
      for (const at of [undefined, "*", '"x"']) same(await watch(at), at === "*" ? unchanged() : listed([]), "at once");
      let watching = watch(none);
      const id = await createdId(world, bob);
      let answer = await watching;
      assert.equal(answer.body.events[0].id, id);
      for (const change of [
        () => call(usual, "POST", `/api/event/join/${id}`, { session: alice }),
        () => call(usual, "DELETE", `/api/event/${id}`, { session: bob }),
        () => usual.remove(id),
      ]) {
        watching = watch(answer.values.etag);
        await change();
        answer = await watching;
        assert.equal(answer.status, 200);
      }
      same(answer, listed([]));
      assert.equal(answer.values.etag, none);
    });

    test("a watch whose list stays ends with its time", async () => {
      const world = newWorld();
      const alice = await usual.issue(newUser());
      const { values: { etag } } = await list(world, { session: alice });
      const headers = { "If-None-Match": etag };
      const begin = Date.now();
      const watching = [list(`${world}?wait=1`, { session: alice, headers }), list(`${world}?wait=2&from=2040-01-01T00:00:00Z`, { session: alice, headers })];
      await createdId(newWorld(), alice);
      await call(usual, "POST", "/api/event/join/x", { session: alice });
      for (const answer of await Promise.all(watching)) same(answer, unchanged());
      assert.ok(Date.now() - begin > 1_900, `${Date.now() - begin} ms`);
    });

    test("a watch ends when the JWT expires", async () => {
      const { etag } = (await list("watched", { session: await usual.issue(newUser()) })).values;
      for (let seconds = 2; ; seconds *= 2) {
        const brief = usual.expiresIn(await usual.issue(newUser()), seconds);
        const begin = Date.now();
        const answer = await list("watched?wait=50", { session: brief, headers: { "If-None-Match": etag } });
        if (answer.status === 401 && seconds < 30) continue; // the machine is slow, and it has expired before
        same(answer, unchanged());
        assert.ok(Date.now() - begin < 45_000);
        return same(await list("watched", { session: brief }), unauthorized("token_expired"));
      }
    });

    test("what a watch says in the end heeds that its session was revoked", async () => {
      const world = newWorld();
      const alice = await usual.issue(newUser());
      const { values: { etag } } = await list(world, { session: alice });
      const watching = list(`${world}?wait=2`, { session: alice, headers: { "If-None-Match": etag } });
      await signOut({ session: alice });
      same(await watching, unauthorized("invalid_token"));
    });

    test("the owner of a world says who may list, create and join there, and nothing else is asked", async () => {
      const [world, user] = [newWorld(), newUser()];
      const alice = await owned.issue(user);
      owner.may = () => true;
      const { values: { "event-id": id } } = await create(world, alice, event, owned);
      const join = (id) => call(owned, "POST", `/api/event/join/${id}`, { session: alice });
      const leave = (id) => call(owned, "DELETE", `/api/event/${id}`, { session: alice });
      same(await leave(id), done());
      for (const no of ["list", "create", "join"]) {
        owner.asked.splice(0);
        owner.may = (username, of, action) => !(username === user && of === world && action === no);
        for (const [action, act] of Object.entries({
          list: () => list(world, { session: alice }, owned), create: () => create(world, alice, event, owned), join: () => join(id),
        })) {
          const answer = await act();
          if (action === no) same(answer, forbidden, action);
          else assert.equal(answer.status, 200, `${action} without ${no}`);
        }
        assert.deepEqual(owner.asked.splice(0), ["list", "create", "join"].map((action) => [user, world, action]));
      }

      owner.may = () => false;
      same(await list(`${world}?cursor=AAAA`, { session: alice }, owned), forbidden, "before the cursor is looked at");
      const watch = { session: alice, headers: { "If-None-Match": '"x"' } };
      same(await list(`${world}?wait=50`, watch, owned), forbidden, "a watch, at its beginning");
      owner.asked.splice(0);
      same(await leave(id), done());
      for (const unknown of ["x", "01980000-0000-7000-8000-000000000001"]) {
        same(await join(unknown), noEvent);
        same(await leave(unknown), noEvent);
      }
      same(await list(`${world}?limit=0`, { session: alice }, owned), invalid(of({ limit: "minimum" })));
      same(await create(world, alice, { ...event, name: "" }, owned), invalid(of({ name: "minLength" })));
      same(await list(world, {}, owned), unauthorized("no_token"));
      same(await call(owned, "GET", "/api/auth/session", { session: alice }), signedIn(active, user));
      await signOut({ session: alice }, owned);
      same(await list(`${world}?cursor=AAAA`, { session: alice }, owned), unauthorized("invalid_token"));
      same(await create(world, alice, event, owned), unauthorized("invalid_token"));
      same(await join(id), unauthorized("invalid_token"));
      assert.deepEqual(owner.asked, []);
    });

    test("whoever is put out of a world gets no list at the end of a watch", async () => {
      const world = newWorld();
      const [alice, bob, carol] = [newUser(), newUser(), newUser()];
      owner.may = () => true;
      const { values: { etag } } = await list(world, { session: await owned.issue(alice) }, owned);
      owner.asked.splice(0);
      const watch = async (user, wait) => list(`${world}?wait=${wait}`, { session: await owned.issue(user), headers: { "If-None-Match": etag } }, owned);
      const [news, over] = [watch(alice, 50), watch(carol, 2)];
      await eventually("both were asked about", () => [alice, carol].every((user) => owner.asked.some(([asked]) => asked === user)));
      owner.may = (user) => user === bob;
      same(await over, forbidden, "when its time is over, by when the other waits, too");
      same(await create(world, await owned.issue(bob), event, owned), created);
      same(await news, forbidden, "when there is news");
    });

    test("a path is one of the contract, or none, and its ids are decoded once", async () => {
      const alice = await usual.issue(newUser());
      const notFound = error(404, "not_found", "No such path");
      for (const path of [
        "/api/event", "/api/event/", "/api/event/a/b", "/api/event/join/", "/api/event/join/a/b", "/api/event/plaza/", "/api/auth/sessions", "/api/auth",
        "/api/auth/session/",
      ]) {
        for (const method of ["GET", "POST"]) same(await call(usual, method, path, { session: alice }), notFound, `${method} ${path}`);
      }
      for (const [world, name] of [["a%2Fb", "a/b"], ["100%25", "100%"], ["%2541", "%41"], ["%41", "A"]]) {
        const id = await createdId(world, alice, { name });
        const { body } = await list(encodeURIComponent(name), { session: alice });
        assert.deepEqual(body.events.map(({ id }) => id), [id], world);
      }
      for (const [method, path] of [["POST", "/api/event/%zz"], ["POST", "/api/event/join/100%"], ["DELETE", "/api/event/%"]]) {
        const answer = await call(usual, method, path, { session: alice });
        assert.deepEqual([answer.status, answer.body], [400, "400 Bad Request"], path);
      }
    });

    test("another method is 405, and OPTIONS tells which there are", async () => {
      for (const [path, methods, headers] of [
        ["/api/auth/session", ["GET"], noStore], ["/api/auth/refresh", ["GET"], noStore], ["/api/event/plaza", ["DELETE", "GET", "POST"]],
        ["/api/event/join/x", ["POST"]], ["/sign-out", ["POST"]],
      ]) {
        const sort = (answer) => {
          answer.headers.allow = answer.headers.allow.split(", ").sort().join();
          return answer;
        };
        const allow = ["OPTIONS", ...methods].sort().join();
        same(sort(await call(usual, "OPTIONS", path)), { status: 204, headers: { allow, ...headers, ...vary }, cookies: [] }, path);
        for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE"].filter((method) => !methods.includes(method))) {
          const want = error(405, "method_not_allowed", "The path does not have this method", { headers: { allow } });
          if (path === "/sign-out" && method === "GET") continue;
          same(sort(await call(usual, method, path)), want, `${method} ${path}`);
        }
        const { body, ...head } = error(405, "", "", { headers: { allow } });
        same(sort(await call(usual, "HEAD", path)), head, `HEAD ${path}`);
      }
    });

    test("what a page of another origin sends is refused", async () => {
      const refusal = error(403, "cross_origin", "Cross-origin request refused");
      const alice = await usual.issue(newUser());
      const world = newWorld();
      for (const [headers, fits] of [
        [{ "Sec-Fetch-Site": "cross-site" }, false], [{ "Sec-Fetch-Site": "same-site" }, false], [{ Origin: "https://evil.example" }, false],
        [{ "Sec-Fetch-Site": "cross-site", Origin: "https://evil.example" }, false], [{ Origin: "null" }, false],
        [{ "Sec-Fetch-Site": "same-origin" }, true], [{ "Sec-Fetch-Site": "none" }, true], [{ Origin: usual.address }, true],
        [{ "Sec-Fetch-Site": "cross-site", Origin: usual.address }, true],
      ]) {
        const want = (answer) => (fits ? answer : refusal);
        same(await session({ headers }), want(inactive("No token")), JSON.stringify(headers));
        same(await refresh({ headers }), want(refused({ error: "No refresh token" })));
        same(await call(usual, "POST", "/api/event/plaza", { headers }), want(unauthorized("no_token")));
        same(await call(usual, "POST", "/api/event/join/x", { headers }), want(unauthorized("no_token")));
        same(await call(usual, "DELETE", "/api/event/x", { headers }), want(unauthorized("no_token")));
        const isEmbedded = headers["Sec-Fetch-Site"]?.endsWith("-site") ?? false;
        same(await list(world, { session: alice, headers }), isEmbedded ? want(listed([])) : listed([]), "a GET that changes nothing");
        // Node's fetch says "cors" to a service, whatever it is told.
        if (kind === "the mock") same(await list(world, { session: alice, headers: { ...headers, "Sec-Fetch-Mode": "navigate" } }), listed([]), "in a window");
      }
      for (const path of ["session", "refresh"]) same(await call(usual, "GET", `/api/auth/${path}`, { headers: { "Sec-Purpose": "prefetch" } }), refusal);
    });

    test("more than 100 header lines are too many", async () => {
      const headers = Object.fromEntries(Array.from({ length: 120 }, (_, i) => [`X-${i}`, "1"]));
      const want = error(431, "headers_too_large", "The request has more than 100 header lines");
      for (const [method, path] of [
        ["GET", "/api/auth/session"], ["GET", "/api/auth/refresh"], ["GET", "/api/event/plaza"], ["POST", "/api/event/plaza"],
        ["POST", "/api/event/join/x"], ["DELETE", "/api/event/x"],
      ]) same(await call(usual, method, path, { headers }), want, path);
    });

    test("too many calls, and what nobody foresaw", async () => {
      const alice = await limited.issue("alice");
      const { values: { "event-id": id } } = await create("plaza", alice, event, limited);
      const leave = () => call(limited, "DELETE", `/api/event/${id}`, { session: alice });
      await limited.failing[429]();
      same(await leave(), error(429, "rate_limited", "Too many requests", { headers: { "retry-after": "1" } }));

      const free = await limited.failing[503]();
      let answer;
      await eventually("nothing more may be in flight", async () => (answer = await list("plaza", { session: alice }, limited)).status !== 200);
      same(answer, error(503, "overloaded", "Overloaded", { headers: { "retry-after": "1" } }));
      free();
      await eventually("the next call succeeds", async () => (await list("plaza", { session: alice }, limited)).status === 200);

      const carol = await limited.issue("carol"); // who may write once, too
      const mend = await limited.failing[500]();
      same(await create("plaza", carol, event, limited), error(500, "internal", "Internal error", { detail: "create event: unexpected error" }));
      mend();
    });

    test("the request id is the service's own", async () => {
      const mine = "5f0c1e9b-7d2a-4c3e-8f6a-1b0d9c7e4f21";
      const response = await fetch(`${usual.address}/api/event/plaza`, { headers: { "X-Request-Id": mine } });
      assert.notEqual(response.headers.get("X-Request-Id"), mine);
    });
  });
}

test("the limits are the contract's", () => {
  const names = { id: "worldId", "Idempotency-Key": "idempotencyKey" };
  const { parameters, schemas } = contract.components;
  const own = contract.paths["/api/event/{id}"].get.parameters.filter(({ $ref }) => !$ref);
  const found = {};
  for (const [name, schema] of [
    ...[...Object.values(parameters), ...own].map(({ name, schema }) => [name, schema]),
    ...Object.entries({ ...schemas.NewEvent.properties, ...schemas.RsvpUser.properties }),
  ]) {
    const limited = Object.entries(schema).filter(([keyword]) => /^m(in|ax)/.test(keyword));
    if (limited.length > 0) found[names[name] ?? name] = Object.fromEntries(limited);
  }
  assert.deepEqual({ ...limits }, found);
});

test("both have been seen with every status of the contract", () => {
  for (const kind of Object.keys(kinds)) {
    for (const [path, methods] of Object.entries(contract.paths)) {
      for (const [method, { operationId, responses }] of Object.entries(methods)) {
        const known = [429, 500, 503]; // each of one operation: what stands before all of them says so
        if (operationId === "listEvents") known.push(413); // fetch sends no body with a GET
        const statuses = new Set([...known, ...seen[kind][`${method.toUpperCase()} ${path}`]]);
        assert.deepEqual(Object.keys(responses).map(Number).filter((status) => !statuses.has(status)), [], `${kind}: ${operationId}`);
      }
    }
  }
});
