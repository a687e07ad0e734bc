// What the hooks show, whatever happens: random clicks, faults and other users in two tabs, against what is true once all is quiet.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { InfiniteQueryObserver, QueryClient, QueryObserver } from "@tanstack/react-query";
import fc from "fast-check";
import { connect } from "worldevents-client";
import { eventPagesOptions, eventsOptions, queryKeys } from "worldevents-client/query";
import { eventually, fetchWithCookies, startService } from "../../../tests/browser/service.mjs";
import { joining, leaving, liveList, underWay, withChanges } from "../dist/hooks.js";

const pause = (milliseconds) => new Promise((next) => setTimeout(next, milliseconds));
const session = { username: "alice", expires: new Date(Date.now() + 900_000) };
let service, bob, run = 0;

before(async () => {
  service = await startService({ SESSIONS_PER_USER: "100" });
  bob = fetchWithCookies(await service.issue("bob"));
  globalThis.document = {}; // as in a page
  Object.defineProperty(navigator, "locks", { value: { request: requestLock }, configurable: true });
  connect({ baseUrl: service.address, fetch: breaking(fetchWithCookies(await service.issue("alice"))) });
});
after(() => service?.stop());

/** Web Locks, which Node 22 has not. Here any number of lists may wait. */
const held = new Map();
async function requestLock(name, { signal, steal, ifAvailable }, act) {
  const before = steal || ifAvailable ? undefined : held.get(name);
  const given = new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
  const turn = (before ? Promise.race([before, given]) : Promise.resolve()).then(() => act({ name }));
  given.catch(() => {});
  held.set(name, Promise.allSettled([before, turn]));
  return turn;
}

/** What is known of the worlds under test, by their names and by the ids of their events. */
const worlds = new Map();

/** A fetch that loses what a history says, and notes the lists of the service by their ETags. */
function breaking(send) {
  return async (request, init) => {
    const world = worlds.get(/[^/?]*(?=\?|$)/.exec(new URL(request.url ?? request).pathname.replace(/.*\//, ""))[0]);
    if (!world) return send(request, init);
    const away = () => {
      if (Date.now() < world.awayUntil) throw new TypeError("fetch failed");
    };
    const bad = () => new Response("<h1>Bad gateway</h1>", { status: 502, headers: { "Content-Type": "text/html" } });
    const fault = request.method === "GET" ? undefined : world.faults.shift();
    if (fault === "slow") await pause(80);
    away();
    if (fault === "refused") return bad();
    const response = await send(request, init);
    if (fault === "slow") await pause(80);
    away();
    if (fault === "lost") return bad();
    if (request.url.includes("limit=")) await world.holdsPages;
    if (request.method === "GET" && response.status === 200) world.lists.set(response.headers.get("ETag"), (await response.clone().json()).events);
    return response;
  };
}

/** A tab that shows a list live, and pages of it. */
function openTab(world, onNews) {
  const queries = new QueryClient();
  queries.setQueryData(queryKeys.session, session);
  const list = new QueryObserver(queries, { ...eventsOptions(world), staleTime: Infinity });
  const pages = new InfiniteQueryObserver(queries, eventPagesOptions(world));
  const ends = [list.subscribe(() => {}), pages.subscribe(() => {})];
  const changes = () => queries.getMutationCache().findAll(underWay.filters).map(underWay.select);
  const withNames = (events) => events && Object.fromEntries(
    withChanges(events, changes(), session).map(({ id, RSVPs }) => [id, RSVPs.map(({ user }) => user.username).sort()]));
  const tab = {
    list: () => queries.getQueryData(eventsOptions(world).queryKey),
    shown: () => withNames(tab.list()?.events),
    shownPages: () => withNames(pages.getCurrentResult().data),
    click(id, joins) {
      const options = queries.defaultMutationOptions((joins ? joining : leaving)(queries, world));
      const mutation = queries.getMutationCache().build(queries, options);
      const began = Date.now();
      const done = mutation.execute(id).then(() => Date.now() - began, () => 0);
      return { tab, joins, state: () => mutation.state.status, done };
    },
    async start() {
      while (!tab.list()) await pause(5);
      const asked = { data: session, failureReason: null, fetchStatus: "idle" };
      ends.push(liveList(queries, world, {}, asked, list.getCurrentResult()).show(() => {}));
      for (const cache of [queries.getQueryCache(), queries.getMutationCache()]) ends.push(cache.subscribe(() => onNews(tab)));
    },
    close() {
      for (const end of ends) end();
      queries.clear();
    },
  };
  return tab;
}

/** Lives through a history, and returns what was wrong. */
async function live(history) {
  const name = `world-${++run}`;
  const world = { awayUntil: 0, faults: [], lists: new Map() };
  worlds.set(name, world);
  const ids = [await service.create(bob, name), await service.create(bob, name)];
  for (const id of ids) worlds.set(id, world);
  const wrong = [];
  const last = new Map(); // the last click on each event
  const clickers = new Map(); // the tabs that clicked it
  const tabs = [0, 1].map(() => openTab(name, (tab) => {
    const { etag, events } = tab.list() ?? {};
    if (etag && !isDeepStrictEqual(world.lists.get(etag), events)) wrong.push(`a list is not that of its ETag: ${JSON.stringify(events)}`);
    for (const [id, click] of last) {
      if (click.tab !== tab || clickers.get(id).size > 1 || click.state() === "error") continue;
      if (tab.shown()[id].includes("alice") !== click.joins) wrong.push(`${click.joins ? "a join" : "a leave"} flickers`);
    }
  }));
  for (const tab of tabs) await tab.start();
  const clicks = [];
  for (const step of history) {
    const id = ids[step.event];
    if (step.do === "click") {
      const tab = tabs[step.tab];
      clickers.set(id, (clickers.get(id) ?? new Set()).add(tab));
      last.delete(id);
      const click = tab.click(id, step.joins);
      clicks.push(click.done.then((milliseconds) => clickers.get(id).size > 1 ? 0 : milliseconds)); // what is undone in another tab need not come
      await pause(0); // until it is under way
      last.set(id, click);
    } else if (step.do === "other") {
      const path = step.joins ? `/api/event/join/${id}` : `/api/event/${id}`;
      await bob(service.address + path, { method: step.joins ? "POST" : "DELETE" });
    } else if (step.do === "fault") world.faults.push(step.fault);
    else if (step.do === "outage") world.awayUntil = Date.now() + step.ms;
    else await pause(step.ms);
  }
  const longest = Math.max(0, ...await Promise.all(clicks));
  if (longest > 29_000) wrong.push("a change waits for its list in vain");
  last.clear();
  const read = async () => (await (await bob(`${service.address}/api/event/${name}`)).json()).events;
  const truth = Object.fromEntries((await read()).map(({ id, RSVPs }) => [id, RSVPs.map(({ user }) => user.username).sort()]));
  const until = Date.now() + 40_000;
  // Pages have no watch: they know what their own tab has done.
  const arePagesTrue = (tab) => [...clickers].every(([id, by]) =>
    by.size > 1 || !by.has(tab) || tab.shownPages()?.[id].includes("alice") === truth[id].includes("alice"));
  const isTrue = () => tabs.every((tab) => isDeepStrictEqual(tab.shown(), truth) && arePagesTrue(tab));
  while (!isTrue() && Date.now() < until) await pause(20);
  if (!isTrue()) wrong.push(`${JSON.stringify(truth)} is shown as ${JSON.stringify(tabs.map((tab) => tab.shown()))}`);
  for (const tab of tabs) tab.close();
  return wrong.slice(0, 1).map((what) => ({ what, history }));
}

const event = fc.nat(1), joins = fc.boolean();
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant("click"), tab: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.constant(1)), event, joins }) },
  fc.record({ do: fc.constant("other"), event, joins }),
  { weight: 2, arbitrary: fc.record({ do: fc.constant("fault"), fault: fc.constantFrom("refused", "lost", "slow") }) },
  fc.record({ do: fc.constant("outage"), ms: fc.integer({ min: 50, max: 800 }) }),
  { weight: 2, arbitrary: fc.record({ do: fc.constant("wait"), ms: fc.nat(150) }) },
);

test("whatever happens, what is shown does not flicker, and is true in the end", async () => {
  const histories = fc.array(fc.array(step, { maxLength: 14 }), { minLength: 1, maxLength: 25, size: "max" });
  await fc.assert(fc.asyncProperty(histories, async (histories) => {
    const wrong = (await Promise.all(histories.map(live))).flat();
    assert.equal(wrong.length, 0, wrong[0]?.what);
  }), { numRuns: 2, interruptAfterTimeLimit: 240_000, markInterruptAsFailure: true });
});

test("pages whose first read is from before a join show it", async () => {
  const world = { awayUntil: 0, faults: [], lists: new Map() };
  worlds.set("pages", world);
  const id = await service.create(bob, "pages");
  worlds.set(id, world);
  let release;
  world.holdsPages = new Promise((resolve) => (release = resolve));
  const tab = openTab("pages", () => {});
  await tab.start();
  const { done } = tab.click(id, true);
  await eventually("it has been joined", async () => (await (await bob(`${service.address}/api/event/pages`)).json()).events[0].RSVPs.length === 2);
  world.holdsPages = undefined;
  await done;
  release();
  await pause(100);
  assert.deepEqual(tab.shownPages(), { [id]: ["alice", "bob"] });
  tab.close();
});
