/**
 * The worldevents API for React with TanStack Query: the session, lists and their pages as query options, and mutations
 * that show their effect at once.
 *
 * @packageDocumentation
 */
import {
  hashKey, infiniteQueryOptions, type InfiniteData, type QueryClient, queryOptions, useMutation, useQuery, useQueryClient,
} from "@tanstack/react-query";
import { useEffect, useState } from "react";
import {
  createEvent, type EventList, joinEvent, leaveEvent, type LiveStatus, type NewEvent, onSessionChange, type Session, type TaggedList, watchEvents,
  type WorldEvent,
} from "./index.js";
import * as options from "./query.js";
import { type ListQuery, type Page, queryKeys } from "./query.js";

export type { ListQuery, Page } from "./query.js";
export { queryKeys } from "./query.js";

/** Who is signed in, or null: what `useSession` asks. */
export const sessionOptions = () => queryOptions(options.sessionOptions());

/** The events of a world, for `useQuery`. With a `limit` all pages are read, one after the other. */
export const eventsOptions = (world: string, query: ListQuery = {}) => queryOptions(options.eventsOptions(world, query));

/** The events of a world page by page, for `useInfiniteQuery`: `data` is the events of all pages that have been read. */
export const eventPagesOptions = (world: string, query: ListQuery = {}) =>
  infiniteQueryOptions(options.eventPagesOptions(world, query));

/**
 * Who is signed in: `data` is the session, null when nobody is, and undefined until it is known. It follows sign-in and
 * sign-out in all tabs. When the user changes, all lists are forgotten.
 */
export function useSession() {
  useQueries();
  return useQuery(sessionOptions());
}

/** The queries, which follow the session while any component of this package is mounted. */
function useQueries(): QueryClient {
  const queries = useQueryClient();
  useEffect(() => onSessionChange((session) => {
    const before = queries.getQueryData<Session | null>(queryKeys.session);
    if (before && session && before.username === session.username) return; // Another component was faster.
    if (before === null && !session) return;
    queries.setQueryData(queryKeys.session, session ?? null);
    void queries.resetQueries({ queryKey: queryKeys.allEvents });
  }, { known: queries.getQueryData<Session | null>(queryKeys.session) }), [queries]);
  return queries;
}

/**
 * The events of a world, live: `eventsOptions` without a limit, kept up to date by `watchEvents` while the component is
 * mounted and somebody is signed in. `live` is how that is doing: its `status` beside `since` and the last `error`. The result's own
 * `status` and `error` are those of the query.
 */
export function useEvents(world: string, query: Omit<ListQuery, "limit"> = {}) {
  const queries = useQueries();
  const { data: session, error } = useQuery(sessionOptions());
  const [live, setLive] = useState<LiveStatus>(() => ({ status: "connecting", since: new Date(), error: undefined }));
  const reading = eventsOptions(world, query);
  const { queryKey } = reading;
  // The watch tells what is new, so what has been read does not grow old.
  const list = useQuery({ ...reading, enabled: !!session, staleTime: Infinity });
  const user = session ? session.username ?? "" : undefined;
  // The watch goes on from what the query has read, and does not wait for one that fails.
  const read = list.data || list.failureCount || list.fetchStatus === "paused";
  // How it is without a watch, while it is not known who is signed in, nobody is, or the list is being read.
  const without = user !== undefined && read ? undefined : session === null ? "ended" : error ? "offline" : "connecting";
  useEffect(() => without ? setLive({ status: without, since: new Date(), error: error ?? undefined }) : watchEvents({
    path: { id: world }, query, known: justRead(queries, queryKey),
  }, {
    onStatus: setLive,
    onList: async (next) => {
      // What is being asked for may be older than the list, and a change that is under way is followed by a list.
      await queries.cancelQueries({ queryKey, exact: true });
      if (!queries.isMutating({ mutationKey: attendanceKey(world) })) queries.setQueryData(queryKey, next);
    },
  }), [queries, hashKey(queryKey), user, without]);
  return { ...list, live };
}

/** The list of a query, unless that was read longer ago: a component that was away does not know what is the latest. */
function justRead(queries: QueryClient, queryKey: readonly unknown[]): TaggedList | undefined {
  const { data, dataUpdatedAt = 0 } = queries.getQueryState<TaggedList>(queryKey) ?? {};
  return Date.now() - dataUpdatedAt < 5_000 ? data : undefined;
}

/** Creates events in a world: `mutate(newEvent)`. `data` is the id; `error.fields` says what is wrong with each field. */
export function useCreateEvent(world: string) {
  const queries = useQueries();
  return useMutation<string, Error, NewEvent>({
    mutationFn: async (body) => (await createEvent({ path: { id: world }, body, throwOnError: true })).data.id,
    onSuccess: () => queries.invalidateQueries({ queryKey: queryKeys.events(world) }),
  });
}

/** Joins events of a world: `mutate(eventId)`. Lists show the user at once, and no longer if it fails. */
export function useJoin(world: string) {
  return useAttendance(world, joinEvent, (names, username) => names.includes(username) ? names : [...names, username]);
}

/** Leaves events of a world: `mutate(eventId)`. Lists no longer show the user, and do again if it fails. */
export function useLeave(world: string) {
  return useAttendance(world, leaveEvent, (names, username) => names.filter((name) => name !== username));
}

function useAttendance(
  world: string, operation: typeof joinEvent | typeof leaveEvent, change: (names: string[], username: string) => string[],
) {
  const queries = useQueries();
  const queryKey = queryKeys.events(world);
  return useMutation<void, Error, string, Undo>({
    mutationKey: attendanceKey(world),
    mutationFn: async (id) => void (await operation({ path: { id }, throwOnError: true })),
    onMutate: async (id) => {
      await queries.cancelQueries({ queryKey });
      const username = queries.getQueryData<Session | null>(queryKeys.session)?.username;
      if (username === undefined) return () => {};
      const before = queries.getQueriesData<EventList>({ queryKey }).flatMap(([, data]) => eventsOf(data)).find((event) => event.id === id);
      updateEvent(queries, world, id, (names) => change(names, username));
      const joined = before?.RSVPs.some(({ user }) => user.username === username);
      return () => updateEvent(queries, world, id, (names) => {
        const others = names.filter((name) => name !== username);
        return !joined ? others : names.includes(username) ? names : [...others, username];
      });
    },
    onError: (_error, _id, undo) => undo?.(),
    // While another change is under way its list would show the user as before it.
    onSettled: () => {
      if (queries.isMutating({ mutationKey: attendanceKey(world) }) === 1) return queries.invalidateQueries({ queryKey });
    },
  });
}

type Undo = () => void;

const attendanceKey = (world: string) => [...queryKeys.events(world), "attendance"];

const eventsOf = (data: EventList | InfiniteData<Page> | undefined): WorldEvent[] =>
  !data ? [] : "pages" in data ? data.pages.flatMap((page) => page.events) : data.events;

/** Changes who takes part in an event, in all lists of the world. */
function updateEvent(queries: QueryClient, world: string, id: string, change: (names: string[]) => string[]): void {
  const inList = <L extends EventList>(list: L): L => ({
    ...list,
    events: list.events.map((event) => event.id !== id ? event : {
      ...event, RSVPs: change(event.RSVPs.map(({ user }) => user.username)).map((username) => ({ user: { username } })),
    }),
  });
  queries.setQueriesData<EventList | InfiniteData<Page>>({ queryKey: queryKeys.events(world) }, (data) =>
    !data ? data : "pages" in data ? { ...data, pages: data.pages.map(inList) } : inList(data));
}
