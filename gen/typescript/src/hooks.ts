/**
 * What the hooks of React, Vue and Svelte have in common: what they do to the queries, and for how long. Each says to this in the words of its
 * framework when a component begins and ends, and what has changed meanwhile.
 */
import {
  createEvent, type EventList, joinEvent, leaveEvent, type LiveStatus, type NewEvent, onSessionChange, type Session, type TaggedList, watchEvents,
  type WorldEvent,
} from "./index.js";
import { keyHeader, newKey } from "./session.js";
import { eventsOptions, type ListQuery, type Page, queryKeys } from "./query.js";

/** What selects the events of a list that is live, which has no pages. */
export type LiveQuery = Omit<ListQuery, "limit">;

/** What is used of a QueryClient: each framework has a class of its own. */
export interface Queries {
  getQueryData(queryKey: readonly unknown[]): unknown;
  getQueryState(queryKey: readonly unknown[]): { data: unknown; dataUpdatedAt: number } | undefined;
  getQueriesData(filters: { queryKey: readonly unknown[] }): [queryKey: readonly unknown[], data: unknown][];
  setQueryData(queryKey: readonly unknown[], data: unknown): unknown;
  setQueriesData(filters: { queryKey: readonly unknown[] }, update: (data: any) => unknown): unknown;
  cancelQueries(filters: { queryKey: readonly unknown[]; exact?: boolean }): Promise<void>;
  resetQueries(filters: { queryKey: readonly unknown[] }): Promise<void>;
  invalidateQueries(filters: { queryKey: readonly unknown[]; predicate: (query: { queryKey: readonly unknown[] }) => boolean }): Promise<void>;
  isMutating(filters: { mutationKey: readonly unknown[] }): number;
}

const sessionIn = (queries: Queries) => queries.getQueryData(queryKeys.session) as Session | null | undefined;

/** Has the queries follow the session, while any component of this package is shown. Returns a function that ends it. */
export function followSession(queries: Queries): () => void {
  return onSessionChange((session) => {
    const before = sessionIn(queries);
    if (before && session && before.username === session.username) return; // Another component was faster.
    if (before === null && !session) return;
    queries.setQueryData(queryKeys.session, session ?? null);
    void queries.resetQueries({ queryKey: queryKeys.allEvents });
  }, { known: sessionIn(queries) });
}

/** What is known of the lists of a world. */
interface World {
  /** The keys of the queries, as JSON, whose watches have the latest list: whatever changes it they are told. */
  live: Map<object, string>;
  /** What joins and leaves that are under way show before their time. */
  changes: Map<Undo, Change>;
  /** Whether one of them has failed. */
  failed: boolean;
  /** The keys of creations of which it is not known what has become of them, by what was to be created. */
  keys: Map<string, string>;
}

const worlds = new WeakMap<Queries, Map<string, World>>();

function worldOf(queries: Queries, world: string): World {
  if (!worlds.has(queries)) worlds.set(queries, new Map());
  const known = worlds.get(queries)!;
  if (!known.has(world)) known.set(world, { live: new Map(), changes: new Map(), failed: false, keys: new Map() });
  return known.get(world)!;
}

/** Has the lists of a world read again after a write: `all` of them, or those that no watch brings. */
function readAgain(queries: Queries, world: string, all = false): Promise<void> {
  const live = new Set(all ? [] : worldOf(queries, world).live.values());
  return queries.invalidateQueries({ queryKey: queryKeys.events(world), predicate: ({ queryKey }) => !live.has(JSON.stringify(queryKey)) });
}

/** How a list is while its component begins. */
export const connecting = (): LiveStatus => ({ status: "connecting", since: new Date(), error: undefined });

/** What is asked of a query: of the session, and of the list. */
interface Asked<T> {
  data: T | undefined;
  error: unknown;
  failureCount: number;
  fetchStatus: string;
}

/** A list that is to be shown live. */
export interface LiveList {
  /** What the list is shown with. While it is the same `show` goes on. */
  term: string;
  /** Keeps the query up to date, and says how that is doing, until the function that it returns is called. */
  show: (onStatus: (live: LiveStatus) => void) => () => void;
}

/** The list that `list` has been asked for, for the user of `session`. */
export function liveList(
  queries: Queries, world: string, query: LiveQuery, { data: session, error }: Asked<Session | null>, list: Asked<TaggedList>,
): LiveList {
  const { queryKey } = eventsOptions(world, query);
  const user = session ? session.username ?? "" : undefined;
  // The watch goes on from what the query has read, and does not wait for one that fails.
  const read = list.data || list.failureCount || list.fetchStatus === "paused";
  // How it is without a watch, while it is not known who is signed in, nobody is, or the list is being read.
  const without = user !== undefined && read ? undefined : session === null ? "ended" : error ? "offline" : "connecting";
  return {
    term: JSON.stringify([queryKey, user, without]),
    show(onStatus) {
      if (without) {
        onStatus({ status: without, since: new Date(), error: error ?? undefined });
        return () => {};
      }
      const { live, changes } = worldOf(queries, world);
      const watch = {};
      const stop = watchEvents({ path: { id: world }, query, known: justRead(queries, queryKey) }, {
        onStatus: (status) => {
          if (status.status === "live") live.set(watch, JSON.stringify(queryKey));
          else live.delete(watch);
          onStatus(status);
        },
        onList: async (next) => {
          // What is being asked for may be older than the list, and the list older than what is under way.
          await queries.cancelQueries({ queryKey, exact: true });
          queries.setQueryData(queryKey, [...changes.values()].reduce((lists: Lists, change) => change(lists), next));
        },
      });
      return () => {
        live.delete(watch);
        stop();
      };
    },
  };
}

/** The list of a query, unless that was read longer ago: a component that was away does not know what is the latest. */
function justRead(queries: Queries, queryKey: readonly unknown[]): TaggedList | undefined {
  const { data, dataUpdatedAt = 0 } = queries.getQueryState(queryKey) ?? {};
  return Date.now() - dataUpdatedAt < 5_000 ? data as TaggedList | undefined : undefined;
}

/** For how long, in milliseconds, the same creation again is the same event. */
const maxRepeating = 5 * 60_000;

/**
 * The mutation that creates events in a world. The same one again makes one event, until it is known that there is one: it was clicked
 * twice, or its response was lost. Later somebody may mean another one.
 */
export const creation = (queries: Queries, world: string) => ({
  mutationFn: async (body: NewEvent): Promise<string> => {
    const { keys } = worldOf(queries, world);
    const event = JSON.stringify(body);
    const known = keys.get(event);
    const key = known && Date.now() - parseInt(known) < maxRepeating ? known : newKey();
    keys.set(event, key);
    try {
      const { data } = await createEvent({ path: { id: world }, body, headers: { [keyHeader]: key }, throwOnError: true });
      if (keys.get(event) === key) keys.delete(event);
      return data.id;
    } catch (error) {
      keys.set(event, key);
      throw error;
    }
  },
  onSuccess: () => readAgain(queries, world),
});

/** The mutation that joins events of a world. */
export const joining = (queries: Queries, world: string) =>
  attendance(queries, world, joinEvent, (names, username) => names.includes(username) ? names : [...names, username]);

/** The mutation that leaves events of a world. */
export const leaving = (queries: Queries, world: string) =>
  attendance(queries, world, leaveEvent, (names, username) => names.filter((name) => name !== username));

/** What undoes in all lists what a mutation has shown before its time. */
export type Undo = () => void;

function attendance(
  queries: Queries, world: string, operation: typeof joinEvent | typeof leaveEvent, change: (names: string[], username: string) => string[],
) {
  const queryKey = queryKeys.events(world);
  return {
    mutationKey: attendanceKey(world),
    mutationFn: async (id: string): Promise<void> => void (await operation({ path: { id }, throwOnError: true })),
    onMutate: async (id: string): Promise<Undo> => {
      await queries.cancelQueries({ queryKey });
      const username = sessionIn(queries)?.username;
      if (username === undefined) return () => {};
      const before = queries.getQueriesData({ queryKey }).flatMap(([, data]) => eventsOf(data as Lists)).find((event) => event.id === id);
      const joined = before?.RSVPs.some(({ user }) => user.username === username);
      // Somebody else may be signed in when the next list comes.
      const show = inEvent(id, (names) => sessionIn(queries)?.username === username ? change(names, username) : names);
      const undo = () => queries.setQueriesData({ queryKey }, inEvent(id, (names) => {
        const others = names.filter((name) => name !== username);
        return !joined ? others : names.includes(username) ? names : [...others, username];
      }));
      worldOf(queries, world).changes.set(undo, show);
      queries.setQueriesData({ queryKey }, show);
      return undo;
    },
    onError: (_error: Error, _id: string, undo: Undo | undefined) => undo?.(),
    onSettled: (_data: void | undefined, error: Error | null, _id: string, undo: Undo | undefined) => {
      const state = worldOf(queries, world);
      if (undo) state.changes.delete(undo);
      state.failed ||= !!error;
      // While another change is under way what is read would show the user as before it.
      if (queries.isMutating({ mutationKey: attendanceKey(world) }) > 1) return;
      // What has failed may have happened, and its list may have come before it was undone.
      const all = state.failed;
      state.failed = false;
      return readAgain(queries, world, all);
    },
  };
}

const attendanceKey = (world: string) => [...queryKeys.events(world), "attendance"];

/** What the queries of a world have: a list, or its pages. */
type Lists = EventList | { pages: Page[] } | undefined;

const eventsOf = (data: Lists): WorldEvent[] => !data ? [] : "pages" in data ? data.pages.flatMap((page) => page.events) : data.events;

/** What a join or a leave does to a list, or to its pages. */
type Change = (data: Lists) => Lists;

/** Changes who takes part in an event. */
function inEvent(id: string, change: (names: string[]) => string[]): Change {
  const inList = <L extends EventList>(list: L): L => ({
    ...list,
    events: list.events.map((event) => event.id !== id ? event : {
      ...event, RSVPs: change(event.RSVPs.map(({ user }) => user.username)).map((username) => ({ user: { username } })),
    }),
  });
  return (data) => !data ? data : "pages" in data ? { ...data, pages: data.pages.map(inList) } : inList(data);
}
