// What worldevents-client/mock has beside the service's own behaviour, which contract.test.mjs holds: the browser's cookies, what a test
// does to the service, and the client over it.
import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, describe, test } from "node:test";
import { InfiniteQueryObserver, QueryClient, QueryObserver } from "@tanstack/react-query";
import { buildSync } from "esbuild";
import { http, HttpResponse } from "msw";
import { setupServer } from "msw/node";
import {
  allEvents, connect, createClient, createEvent, eventLists, getSession, hasJoined, joinEvent, leaveEvent, listEvents, onSessionChange, past, refreshSession, serverClient,
  sessionOf, signOut, upcoming, watchEvents,
} from "worldevents-client";
import { mock } from "worldevents-client/mock";
import { eventPagesOptions, eventsOptions, queryKeys } from "worldevents-client/query";
import { eventually } from "../../../tests/browser/service.mjs";
import { followUser, leaving, liveList } from "../dist/hooks.js";

const baseUrl = "http://worldevents.example";
const path = { id: "plaza" };
const body = { name: "Boat trip", description: "", scheduledAt: "2030-01-01T00:00:00Z" };
const usernames = ({ RSVPs }) => RSVPs.map(({ user }) => user.username);

describe("with somebody signed in", () => {
  const service = mock({
    user: "alice",
    events: [{ world: "plaza", id: "concert", name: "Rooftop concert", scheduledAt: "2031-01-01T00:00:00Z", joined: ["bob", "alice"] }],
  });
  const server = setupServer(...service.handlers);
  let asked;
  before(() => server.listen({ onUnhandledRequest: "error" }));
  after(() => server.close());
  beforeEach(() => {
    // As in a page: MSW sends what document.cookie has, and no httpOnly cookie is there.
    globalThis.document = { cookie: "theme=dark" };
    globalThis.location = new URL("https://page.example/");
    asked = 0;
    connect({ baseUrl, onSignInNeeded: () => asked++ });
  });
  afterEach(() => {
    service.reset();
    server.resetHandlers();
    delete globalThis.document;
    delete globalThis.location;
  });

  test("the client reads and writes", async () => {
    assert.equal(sessionOf(await getSession()).username, "alice");
    const { data: { id } } = await createEvent({ path, body });
    await leaveEvent({ path: { id: "concert" } });
    await joinEvent({ path: { id } });
    const { data } = await listEvents({ path });
    assert.deepEqual(data.events.map((event) => [event.id, ...usernames(event)]), [[id, "alice"], ["concert", "bob"]]);
    assert.deepEqual(service.list("plaza"), data.events);
    const names = [];
    for await (const { name } of allEvents({ path, query: { limit: 1 } })) names.push(name);
    assert.deepEqual(names, ["Boat trip", "Rooftop concert"]);
    assert.equal((await createEvent({ path, body: { ...body, name: "" } })).error.fields.name,
      "must be 1 to 200 characters, not only white space, without control characters");
  });

  test("the browser's cookies go with credentials alone, and no script sees them", async () => {
    const url = `${baseUrl}/api/event/plaza`;
    assert.equal((await fetch(url, { credentials: "include" })).status, 200);
    for (const credentials of ["omit", "same-origin"]) assert.equal((await fetch(url, { credentials })).status, 401, credentials);
    globalThis.location = new URL("/page", baseUrl);
    assert.equal((await fetch(url)).status, 200, "of the page's own origin");
    assert.equal((await fetch(url, { credentials: "omit" })).status, 401);
    assert.equal(document.cookie, "theme=dark");
  });

  test("MSW keeps none of the cookies in its store", async () => {
    let cookies;
    await refreshSession();
    server.use(http.get(`${baseUrl}/other`, (call) => ((cookies = call.cookies), new HttpResponse())));
    await fetch(`${baseUrl}/other`, { credentials: "include" });
    assert.deepEqual(cookies, { theme: "dark" });
  });

  test("a refresh replaces the browser's cookies", async () => {
    service.expireTokens();
    const lists = await Promise.all(Array.from({ length: 5 }, () => listEvents({ path })));
    assert.deepEqual(lists.map(({ data }) => data?.events.length), Array(5).fill(1));
    service.expireTokens();
    assert.ok((await getSession()).data);
    assert.ok((await refreshSession()).data);
    assert.equal(asked, 0);
  });

  test("signing out and in", async () => {
    const changes = [];
    const end = onSessionChange((session) => changes.push(session?.username));
    await getSession();
    await signOut();
    assert.deepEqual((await getSession()).error, { authenticated: false, error: "No token" });
    assert.equal((await listEvents({ path })).error.code, "no_token");
    service.signIn("carol");
    assert.equal(sessionOf(await getSession()).username, "carol");
    assert.deepEqual(changes, [undefined, "carol"]);
    end();
  });

  test("signing out beside the client: its next call says so, once, and the session does not come back", async () => {
    const changes = [];
    const end = onSessionChange((session) => changes.push(session?.username));
    await getSession();
    service.signOut();
    assert.deepEqual((await getSession()).error, { authenticated: false, error: "No token" });
    assert.equal((await listEvents({ path })).error.code, "no_token");
    assert.equal((await refreshSession()).error.error, "No refresh token");
    assert.deepEqual([changes, asked], [[undefined], 1]);
    service.signOut(); // of nobody
    service.signIn("alice");
    assert.equal(sessionOf(await getSession()).username, "alice");
    end();
  });

  test("a sign-out ends this browser's session, and no other", async () => {
    const service = mock({ baseUrl, user: "alice", sessionsPerUser: 2 });
    server.use(...service.handlers);
    const { token, refreshToken } = service.issue("alice");
    const { headers } = await fetch(`${baseUrl}/api/auth/refresh`, { credentials: "include" });
    const cookie = headers.getSetCookie().map((line) => line.split(";")[0]).join("; ");
    service.signOut();
    const status = async (cookie) => (await fetch(`${baseUrl}/api/event/plaza`, { headers: { Cookie: cookie } })).status;
    assert.equal(await status(cookie), 401);
    assert.equal(await status(`token=${token}; refreshToken=${refreshToken}`), 200);
  });

  test("a session that is ended elsewhere", async () => {
    service.issue("alice"); // on another device, which takes the refresh token alone
    assert.ok((await listEvents({ path })).data);
    service.expireTokens();
    assert.equal((await listEvents({ path })).error.code, "token_expired");
    assert.equal(asked, 1);
    service.signIn("alice");
    assert.ok((await listEvents({ path })).data);
    service.revoke("alice");
    assert.equal((await listEvents({ path })).error.code, "invalid_token");
    assert.equal(asked, 2);
  });

  test("a server's calls have the cookies that they bring, and leave those of the browser alone", async () => {
    const { token, refreshToken } = service.issue("bob");
    const client = serverClient({ baseUrl, cookie: `token=${token}; refreshToken=${refreshToken}` });
    assert.equal(sessionOf(await getSession({ client })).username, "bob");
    assert.equal((await listEvents({ client: serverClient({ baseUrl, cookie: undefined }), path })).error.code, "no_token");
    const response = await fetch(`${baseUrl}/api/auth/refresh`, { credentials: "include", headers: { Cookie: `refreshToken=${refreshToken}` } });
    assert.deepEqual(response.headers.getSetCookie().map((line) => line.replace(/=[^;]+/, "=…")), ["token", "refreshToken"].map(
      (name) => `${name}=…; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax`));
    assert.equal(sessionOf(await getSession()).username, "alice");
  });

  test("a live list shows what others do, also after the service begins anew", async () => {
    delete globalThis.document; // a page without Web Locks would not wait, but ask every 5 seconds
    const lists = [], errors = [];
    const stop = watchEvents({ path }, {
      onList: ({ events }) => lists.push(events.map((event) => `${event.name}: ${usernames(event)}`).join("; ")),
      onError: (error) => errors.push(error),
    });
    const shown = (text) => eventually(text, () => lists.at(-1) === text);
    await shown("Rooftop concert: bob,alice");
    service.leave("concert", "bob");
    service.join("concert", "carol");
    await joinEvent({ path: { id: "concert" } });
    await shown("Rooftop concert: alice,carol");
    service.remove("concert");
    await createEvent({ path, body });
    await shown("Boat trip: alice");
    service.reset();
    await shown("Rooftop concert: bob,alice");
    stop();
    assert.deepEqual(errors, []);
  });

  test("calls fail as they are told to, and then no longer", async () => {
    const list = () => listEvents({ path });
    service.fail("listEvents", { status: 500 });
    service.fail("listEvents", { status: 503, retryAfter: 60, times: 2 });
    const first = await list();
    assert.deepEqual([first.response.status, first.error.detail], [500, "list events: unexpected error"]);
    for (let i = 0; i < 2; i++) {
      const { response, error } = await list();
      assert.deepEqual([response.headers.get("Retry-After"), error.code], ["60", "overloaded"]);
    }
    assert.ok((await list()).data);
    service.fail("joinEvent", { status: 429, retryAfter: 11 });
    assert.ok((await leaveEvent({ path: { id: "concert" } })).data, "no other operation");
    assert.equal((await joinEvent({ path: { id: "concert" } })).error.code, "rate_limited");
    assert.deepEqual(usernames(service.list("plaza")[0]), ["bob"], "and nothing was done");
  });

  test("reset forgets everything", async () => {
    service.fail("getSession", { status: 500 });
    service.remove("concert");
    service.signIn("bob");
    service.reset();
    assert.equal(sessionOf(await getSession()).username, "alice");
    assert.equal(service.list("plaza").length, 1);
    assert.throws(() => service.join("gone", "bob"), { message: "No such event" });
  });

  test("a watch is told to come again where the service begins anew", async () => {
    const url = `${baseUrl}/api/event/plaza`;
    const etag = (await fetch(url, { credentials: "include" })).headers.get("ETag");
    let response;
    fetch(`${url}?wait=50`, { credentials: "include", headers: { "If-None-Match": etag } }).then((early) => (response = early));
    await eventually("it has come, and ended", () => (service.reset(), response));
    assert.deepEqual([response.status, response.headers.get("Retry-After"), response.headers.get("ETag")], [304, "1", etag]);
  });

  test("a call that is given up waits no longer", async () => {
    const url = `${baseUrl}/api/event/plaza`;
    const etag = (await fetch(url, { credentials: "include" })).headers.get("ETag");
    const undone = new AbortController();
    const call = fetch(`${url}?wait=50`, { credentials: "include", headers: { "If-None-Match": etag }, signal: undone.signal });
    undone.abort();
    await assert.rejects(call, { name: "AbortError" }); // and a timer that stayed would keep this process for 50 seconds
  });
});

describe("in a world that another system owns", () => {
  const events = [{ world: "plaza", id: "concert", name: "Concert", scheduledAt: "2031-01-01T00:00:00Z", joined: ["bob", "alice"] }];
  let may, calls, asked;
  const service = mock({ baseUrl, user: "alice", events, access: (user, world, action) => may || user !== "alice" || world !== "plaza" || !calls.push(action) });
  const server = setupServer(...service.handlers);
  before(() => server.listen());
  after(() => server.close());
  beforeEach(() => {
    [may, calls, asked] = [true, [], 0];
    service.reset();
    connect({ baseUrl, onSignInNeeded: () => asked++ });
  });

  test("whoever is kept out is told so, is not asked to sign in, and nothing is repeated", async () => {
    may = false;
    const code = "forbidden";
    await assert.rejects(listEvents({ path, throwOnError: true }), { name: "CallError", status: 403, code });
    assert.equal((await createEvent({ path, body })).error.code, code);
    assert.equal((await joinEvent({ path: { id: "concert" } })).error.code, code);
    assert.ok((await leaveEvent({ path: { id: "concert" } })).data);
    assert.ok((await listEvents({ path: { id: "harbour" } })).data);
    assert.deepEqual([calls, asked, service.list("plaza").map(usernames)], [["list", "create", "join"], 0, [["bob"]]]);
  });

  test("a watch ends with why, and asks no more", async () => {
    const errors = [], statuses = [];
    watchEvents({ path }, { onList() {}, onError: (error, ended) => errors.push([error.code, ended]), onStatus: ({ status, error }) => statuses.push([status, error?.code]) });
    await eventually("it is live", () => statuses.at(-1)?.[0] === "live");
    may = false;
    service.leave("concert", "bob");
    await eventually("it has ended", () => errors.length);
    await new Promise((next) => setTimeout(next, 1_500));
    assert.deepEqual([errors, statuses.at(-1), calls, asked], [[["forbidden", true]], ["ended", "forbidden"], ["list"], 0]);
    await assert.rejects(eventLists({ path }).next(), { code: "forbidden" });
  });

  test("hooks show no list of it any more, and it is live once it is read again", async (t) => {
    const queries = new QueryClient();
    const session = { username: "alice", expires: new Date(Date.now() + 900_000) };
    queries.setQueryData(queryKeys.session, session);
    const list = new QueryObserver(queries, { ...eventsOptions("plaza"), staleTime: Infinity });
    const pages = new InfiniteQueryObserver(queries, eventPagesOptions("plaza"));
    let term, live, stop;
    /** As in a component: what is shown goes on while its term is the same. */
    const render = () => {
      const shown = liveList(queries, "plaza", {}, { data: session, failureReason: null }, list.getCurrentResult());
      if (term === shown.term) return;
      term = shown.term;
      stop?.();
      stop = shown.show((status) => (live = status));
    };
    const endList = list.subscribe(render);
    const ends = [followUser(queries), pages.subscribe(() => {})];
    t.after(() => [stop, endList, ...ends, () => queries.clear()].forEach((end) => end()));
    const shows = () => [live?.status, live?.error?.code, ...[list, pages].flatMap((each) => {
      const { data, error } = each.getCurrentResult();
      return [!!data, error?.code];
    })];
    const [whole, nothing] = [["live", undefined, true, undefined, true, undefined], ["ended", "forbidden", false, "forbidden", false, "forbidden"]];
    const showing = (want) => eventually(want.join(), () => shows().join() === want.join());

    await showing(whole);
    may = false;
    service.create({ ...events[0], id: "news" });
    await showing(nothing);
    const leave = queries.getMutationCache().build(queries, leaving(queries, "plaza")).execute("concert");
    assert.equal(await Promise.race([leave.then(() => "done"), new Promise((next) => setTimeout(next, 5_000))]), "done", "it waits for no list");
    await showing(nothing);
    const before = calls.length;
    await new Promise((next) => setTimeout(next, 1_500));
    assert.equal(calls.length, before);

    may = true;
    await queries.invalidateQueries({ queryKey: queryKeys.allEvents });
    await showing(whole);
    may = false;
    await queries.invalidateQueries({ queryKey: queryKeys.events("plaza") });
    await showing(nothing); // where it is read, too, and not watched

    may = true;
    await queries.invalidateQueries({ queryKey: queryKeys.allEvents });
    await showing(whole);
    stop();
    endList();
    may = false;
    await queries.invalidateQueries({ queryKey: eventPagesOptions("plaza").queryKey });
    const kept = queries.getQueryCache().findAll({ queryKey: queryKeys.allEvents }).map(({ state }) => [state.data, state.error?.code]);
    assert.deepEqual(kept, [[undefined, "forbidden"], [undefined, "forbidden"]], "pages without a live list beside them");
  });
});

test("a service has an address of its own, or any", async () => {
  const events = [{ world: "plaza", name: "x", scheduledAt: new Date("2030-01-01T00:00:00.5Z") }];
  const below = mock({ baseUrl: "https://api.example/below/", user: "alice", events: [...events, ...events] });
  const any = mock({ user: "bob" });
  const server = setupServer(...below.handlers, ...any.handlers, http.all("*", () => new HttpResponse("not here", { status: 418 })));
  server.listen();
  try {
    const client = createClient({ baseUrl: "https://api.example/below" });
    const { data, response } = await listEvents({ client, path, query: { limit: 1 } });
    assert.equal(data.events[0].scheduledAt, "2030-01-01T00:00:00.500Z");
    assert.match(response.headers.get("Link"), /^<https:\/\/api\.example\/below\/api\/event\/plaza\?limit=1&cursor=/);
    assert.equal(sessionOf(await getSession({ client })).username, "alice");
    assert.equal(sessionOf(await getSession({ client: createClient({ baseUrl: "https://other.example" }) })).username, "bob");
    for (const url of ["https://api-example/below/api/event/plaza", "https://other.example/api/other", "https://other.example/x/api/event/plaza", "https://api.example/"]) {
      assert.equal((await fetch(url)).status, 418, url);
    }
  } finally {
    server.close();
  }
});

test("upcoming and past share the events at the beginning of the hour, and are the same objects until it ends", async (t) => {
  t.mock.timers.enable({ apis: ["Date"], now: Date.parse("2030-01-01T12:00:00Z") });
  const begin = upcoming(), end = past();
  assert.deepEqual([begin, end], [{ from: "2030-01-01T12:00:00Z" }, { to: "2030-01-01T12:00:00Z" }]);
  const events = ["11:59:59.999", "12:00:00", "12:59:59"].map((time) => ({ world: "plaza", name: time, scheduledAt: `2030-01-01T${time}Z` }));
  const server = setupServer(...mock({ baseUrl, user: "alice", events }).handlers);
  server.listen();
  t.after(() => server.close());
  connect({ baseUrl });
  const names = async (query) => (await listEvents({ path, query })).data.events.map(({ name }) => name);
  assert.deepEqual([await names(end), await names(begin)], [["11:59:59.999"], ["12:00:00", "12:59:59"]]);
  t.mock.timers.setTime(Date.parse("2030-01-01T12:59:59.999Z"));
  assert.ok(upcoming() === begin && past() === end);
  t.mock.timers.setTime(Date.parse("2030-01-01T13:00:00Z"));
  assert.deepEqual([past(), upcoming()], [{ to: "2030-01-01T13:00:00Z" }, { from: "2030-01-01T13:00:00Z" }]);
});

test("nobody has joined an event but those of its RSVPs", () => {
  const event = { RSVPs: [{ user: { username: "alice" } }] };
  assert.deepEqual([{ username: "alice" }, { username: "Alice" }, { username: undefined }, null, undefined].map((session) => hasJoined(event, session)),
    [true, false, false, false, false]);
});

test("the clock is the test's", async () => {
  let now = Date.parse("2030-01-01T00:00:00Z");
  const service = mock({ baseUrl, user: "alice", now: () => now });
  const server = setupServer(...service.handlers);
  server.listen();
  try {
    connect({ baseUrl });
    const { expires } = sessionOf(await getSession());
    assert.equal(expires.toISOString(), "2030-01-01T00:15:00.000Z");
    const send = (path) => fetch(baseUrl + path, { credentials: "include" });
    now = expires.getTime() - 1;
    assert.equal((await send("/api/event/plaza")).status, 200);
    now++;
    assert.equal((await send("/api/event/plaza")).status, 401);
    now += 30 * 24 * 3600_000;
    assert.deepEqual(await (await send("/api/auth/session")).json(), { authenticated: false, error: "Invalid refresh token" });
  } finally {
    server.close();
  }
});

test("an event that the service would not take is a mistake of the test", () => {
  const event = { world: "plaza", name: "x", scheduledAt: "2030-01-01T00:00:00Z" };
  for (const [change, message] of [
    [{ name: "" }, /^name of an event must be 1 to 200/], [{ world: ".." }, /^world of an event must/], [{ scheduledAt: "tomorrow" }, /^scheduledAt/],
    [{ joined: [" "] }, /^a username/],
  ]) assert.throws(() => mock({ events: [{ ...event, ...change }] }), { name: "TypeError", message });
  assert.throws(() => mock({ user: "x".repeat(101) }), TypeError);
  assert.throws(() => mock().signIn("\n"), TypeError);
});

test("nothing of the mock, nor MSW, is in what does not import it", () => {
  const inputs = (entry) => {
    const stdin = { contents: `export * from "worldevents-client${entry}"`, resolveDir: import.meta.dirname };
    return Object.keys(buildSync({ stdin, bundle: true, write: false, metafile: true, external: ["react", "svelte", "vue", "@tanstack/*"], format: "esm" }).metafile.inputs);
  };
  for (const entry of ["", "/query", "/react", "/svelte", "/vue"]) assert.deepEqual(inputs(entry).filter((file) => /mock|msw/.test(file)), [], entry);
  assert.ok(inputs("/mock").some((file) => /dist\/mock\/service\.js$/.test(file)));
});
