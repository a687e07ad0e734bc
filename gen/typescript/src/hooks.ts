/**
 * What the hooks of React, Vue and Svelte have in common: what they do to the queries, and for how long. Each says to this in the words of its
 * framework when a component begins and ends, and what has changed meanwhile.
 *
 * The queries have what the service has said, as it came. Joins and leaves that are under way are in the MutationCache alone, and are put on
 * top of it where a component shows it: so nothing has to be undone, and what a query has fits its ETag.
 */
import {
  createEvent, type Fault, hasJoined, joinEvent, leaveEvent, type LiveStatus, type NewEvent, onSessionChange, type Session, type TaggedList, watchEvents,
  type WorldEvent,
} from "./index.js";
import { keyHeader, newKey, within } from "./session.js";
import { eventsOf, eventsOptions, type ListQuery, queryKeys } from "./query.js";

/** What selects the events of a list that is live, which has no pages. */
export type LiveQuery = Omit<ListQuery, "limit">;

type Query = {
  queryKey: readonly unknown[];
  state: { data: unknown; dataUpdatedAt: number; isInvalidated: boolean };
  setState(state: object): void;
};

/** What is used of a QueryClient: each framework has a class of its own. */
export interface Queries {
  getQueryData(queryKey: readonly unknown[]): unknown;
  setQueryData(queryKey: readonly unknown[], data: unknown): unknown;
  cancelQueries(filters: { queryKey: readonly unknown[]; exact?: boolean; predicate?: (query: Query) => boolean }): Promise<void>;
  resetQueries(filters: { queryKey: readonly unknown[] }): Promise<void>;
  invalidateQueries(filters: { queryKey: readonly unknown[]; exact?: boolean; predicate?: (query: Query) => boolean }): Promise<void>;
  isMutating(filters: { mutationKey: readonly unknown[]; predicate: (mutation: { state: { variables: unknown } }) => boolean }): number;
  getQueryCache(): {
    find(filters: { queryKey: readonly unknown[] }): Query | undefined;
    findAll(filters: { queryKey: readonly unknown[]; type?: "active" }): Query[];
    subscribe(listener: (event: { query: Query; action?: { type: string; error?: Fault } }) => unknown): () => void;
  };
}

const sessionIn = (queries: Queries) => queries.getQueryData(queryKeys.session) as Session | null | undefined;

/** Has the queries follow what the user may see, while any component of this package is shown. Returns a function that ends it. */
export function followUser(queries: Queries): () => void {
  const ends = [
    onSessionChange((session) => {
      const before = sessionIn(queries);
      if (before && session && before.username === session.username) return; // Another component was faster.
      if (before === null && !session) return;
      queries.setQueryData(queryKeys.session, session ?? null);
      void queries.resetQueries({ queryKey: queryKeys.allEvents });
    }, { known: sessionIn(queries) }),
    queries.getQueryCache().subscribe(({ query: { queryKey: [service, kind, world] }, action }) => {
      const [own, lists] = queryKeys.allEvents;
      if (service === own && kind === lists && action?.type === "error" && action.error?.code === "forbidden") keepOut(queries, world as string, action.error);
    }),
  ];
  return () => ends.forEach((end) => end());
}

/** The watches that bring lists, each the list of a query: when it was asked for, and when it was last read beside them. */
const watches = new Set<{ query: Query | undefined; asked: number; readAgain: number }>();

const watchesOf = (query: Query) => [...watches].filter((watch) => watch.query === query);

/** Begins to read the lists of a world again, that no watch brings or `all`. What was being read is from before. */
async function readAgain(queries: Queries, world: string, all = false): Promise<void> {
  const filters = { queryKey: queryKeys.events(world), predicate: (query: Query) => all || !watchesOf(query).length };
  await queries.cancelQueries(filters);
  const reread = all ? queries.getQueryCache().findAll({ queryKey: filters.queryKey, type: "active" }) : [];
  for (const watch of reread.flatMap(watchesOf)) watch.readAgain = Date.now();
  void queries.invalidateQueries(filters);
}

/** Has the lists of a world fail, and forgets what they had: whoever is kept out of it sees none any more. */
function keepOut(queries: Queries, world: string, error: Fault): void {
  for (const query of queries.getQueryCache().findAll({ queryKey: queryKeys.events(world) })) {
    query.setState({ data: undefined, status: "error", error, fetchFailureReason: error });
  }
}

/** How a list is while its component begins. */
export const connecting = (): LiveStatus => ({ status: "connecting", since: new Date(), error: undefined });

/** What is asked of a query: of the session, and of the list. */
interface Asked<T> {
  data: T | undefined;
  failureReason: Fault | null;
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
  queries: Queries, world: string, query: LiveQuery, { data: session, failureReason }: Asked<Session | null>, list: Asked<TaggedList>,
): LiveList {
  const { queryKey } = eventsOptions(world, query);
  const user = session ? session.username ?? "" : undefined;
  // The watch goes on from what the query has read, and does not wait for one that fails.
  const read = list.data || list.failureReason || list.fetchStatus === "paused";
  const keptOut = list.failureReason?.code === "forbidden" && list.failureReason;
  // How it is without a watch, while it is not known who is signed in, nobody is, they are kept out, or the list is being read.
  const without = session === null || keptOut ? "ended" : user !== undefined && read ? undefined : failureReason ? "offline" : "connecting";
  return {
    term: JSON.stringify([queryKey, user, without]),
    show(onStatus) {
      if (without) onStatus({ status: without, since: new Date(), error: (keptOut || failureReason) ?? undefined });
      if (without) return () => {};
      const watch = { query: queries.getQueryCache().find({ queryKey }), asked: 0, readAgain: 0 };
      watches.add(watch);
      // A component that was away does not know what is the latest.
      const { data, dataUpdatedAt = 0 } = watch.query?.state ?? {};
      const known = Date.now() - dataUpdatedAt < 5_000 ? data as TaggedList | undefined : undefined;
      const stop = watchEvents({ path: { id: world }, query, known }, {
        onStatus: (status) => {
          if (status.status === "ended") watches.delete(watch);
          if (status.error?.code === "forbidden") keepOut(queries, world, status.error);
          onStatus(status);
        },
        onList: async (next, asked) => {
          if (asked < watch.readAgain) { // It may be older or newer than what has been read since.
            await queries.invalidateQueries({ queryKey, exact: true });
            if (!watch.query?.state.isInvalidated) return;
          } else await queries.cancelQueries({ queryKey, exact: true });
          watch.asked = asked;
          queries.setQueryData(queryKey, next);
        },
      });
      return () => {
        watches.delete(watch);
        stop();
      };
    },
  };
}

/** For how long, in milliseconds, the same creation again is the same event. */
const maxRepeating = 5 * 60_000;

/** The keys of creations of which it is not known what has become of them, by what was to be created. */
const keys = new Map<string, string>();

/**
 * The mutation that creates events in a world. The same one again makes one event, until it is known that there is one: it was clicked
 * twice, or its response was lost. Later somebody may mean another one.
 */
export const creation = (queries: Queries, world: string) => ({
  mutationFn: async (body: NewEvent): Promise<string> => {
    const event = JSON.stringify([world, body]);
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

/** What a join or a leave knows beside its event. While it is not known who is signed in it is not shown before its time. */
export interface Attending {
  username: string | undefined;
  joins: boolean;
  /** Whether none of the other kind is under way for its event. Otherwise a list may look as after it and be from before that one. */
  alone: boolean;
}

/** A join or a leave of an event. */
export type Change = Attending & { id: string };

const attendanceKey = ["worldevents", "attendance"];

/** For how long, in milliseconds, what has succeeded is shown while no list has come that has it. */
const maxShown = 30_000;

/** The mutation that joins events of a world. */
export const joining = (queries: Queries, world: string) => attendance(queries, world, true);

/** The mutation that leaves events of a world. */
export const leaving = (queries: Queries, world: string) => attendance(queries, world, false);

/** It is pending until the lists on the screen have it. */
const attendance = (queries: Queries, world: string, joins: boolean) => ({
  mutationKey: [...attendanceKey, joins],
  mutationFn: async (id: string): Promise<void> => void (await (joins ? joinEvent : leaveEvent)({ path: { id }, throwOnError: true })),
  onMutate: (id: string): Attending => ({
    username: sessionIn(queries)?.username,
    joins,
    alone: !queries.isMutating({ mutationKey: [...attendanceKey, !joins], predicate: ({ state }) => state.variables === id }),
  }),
  onSuccess: (_data: void, id: string, attending: Attending) => arrival(queries, world, { id, ...attending }),
  onError: (_error: Fault, _id: string, attending?: Attending) => void readAgain(queries, world, attending?.alone === false), // It may have happened.
});

/** Waits until every list of a world that is on the screen has a change, or has been asked for after now. */
async function arrival(queries: Queries, world: string, change: Change): Promise<void> {
  const now = Date.now();
  await readAgain(queries, world, !change.alone);
  const has = (query: Query) => {
    const bringing = watchesOf(query);
    return (change.alone && eventsOf(query.state.data).every((event) => event.id !== change.id || isAsAfter(change, event))) ||
      bringing.some(({ asked }) => asked > now) || (bringing.every(({ readAgain }) => readAgain >= now) && !query.state.isInvalidated);
  };
  const cache = queries.getQueryCache();
  let unsubscribe = () => {};
  const come = new Promise<void>((resolve) => {
    const check = () => cache.findAll({ queryKey: queryKeys.events(world), type: "active" }).every(has) && resolve();
    unsubscribe = cache.subscribe(check);
    check();
  });
  return within(maxShown, () => come).catch(() => {}).finally(unsubscribe);
}

/** What is asked of the MutationCache: the joins and leaves that are under way, in the order of the clicks. */
export const underWay = {
  // One that was stored while it was paused has no function any more.
  filters: { mutationKey: attendanceKey, status: "pending" as const, predicate: ({ options }: { options: { mutationFn?: unknown } }) => !!options.mutationFn },
  select: ({ state }: { state: { variables: unknown; context: unknown } }): Change =>
    ({ id: state.variables as string, ...state.context as Attending }),
};

/** The events with what the user has under way on top. */
export function withChanges(events: WorldEvent[], changes: readonly Change[], session: Session | null | undefined): WorldEvent[] {
  // Somebody else may be signed in by now.
  const own = changes.filter(({ username }) => username !== undefined && username === session?.username);
  if (!own.length) return events;
  return events.map((event) => own.filter(({ id }) => id === event.id).reduce(after, event));
}

/** The event after a change. */
function after(event: WorldEvent, change: Change): WorldEvent {
  if (isAsAfter(change, event)) return event;
  const { username = "", joins } = change;
  return { ...event, RSVPs: joins ? [...event.RSVPs, { user: { username } }] : event.RSVPs.filter(({ user }) => user.username !== username) };
}

/** Reports whether the change makes no difference to the event. */
const isAsAfter = (change: Change, event: WorldEvent): boolean => hasJoined(event, change) === change.joins;
