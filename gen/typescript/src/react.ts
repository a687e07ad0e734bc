/**
 * The worldevents API for React with TanStack Query: the session, lists and their pages as query options, and mutations
 * that show their effect at once.
 *
 * @packageDocumentation
 */
import {
  type DataTag, type InfiniteData, type QueryClient, type QueryKey, useInfiniteQuery, type UseInfiniteQueryResult, useMutation,
  type UseMutationResult, useMutationState, useQuery, useQueryClient, type UseQueryResult,
} from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { type Attending, type Change, connecting, creation, followUser, joining, leaving, liveList, type LiveQuery, underWay, withChanges } from "./hooks.js";
import type { Fault, LiveStatus, NewEvent, Session, TaggedList, WorldEvent } from "./index.js";
import * as options from "./query.js";
import type { ListQuery, Page } from "./query.js";

export type { ListQuery, Page } from "./query.js";
export { queryKeys } from "./query.js";

/** Options whose key knows the type of its data, as `queryOptions` makes it. No query takes what that returns under exactOptionalPropertyTypes. */
type Keyed<Options extends { queryKey: QueryKey }, Data> = Omit<Options, "queryKey"> & { queryKey: DataTag<Options["queryKey"], Data> };

/** Who is signed in, or null: what `useSession` asks. */
export const sessionOptions = () => options.sessionOptions() as Keyed<ReturnType<typeof options.sessionOptions>, Session | null>;

/** The events of a world, for `useQuery`. With a `limit` all pages are read, one after the other. */
export const eventsOptions = (world: string, query: ListQuery = {}) =>
  options.eventsOptions(world, query) as Keyed<ReturnType<typeof options.eventsOptions>, TaggedList>;

/** The events of a world page by page, for `useInfiniteQuery`: `data` is the events of all pages that have been read. */
export const eventPagesOptions = (world: string, query: ListQuery = {}) =>
  options.eventPagesOptions(world, query) as Keyed<ReturnType<typeof options.eventPagesOptions>, InfiniteData<Page, string | undefined>>;

/** The queries, which follow the session while any component of this package is mounted. */
function useQueries(): QueryClient {
  const queries = useQueryClient();
  useEffect(() => followUser(queries), [queries]);
  return queries;
}

/** The events with what is under way on top. */
function useShown(events: WorldEvent[] | undefined, session: Session | null | undefined): WorldEvent[] | undefined {
  const changes = useMutationState<Change>(underWay);
  return useMemo(() => events && withChanges(events, changes, session), [events, changes, session]);
}

/**
 * Who is signed in: `data` is the session, null when nobody is, and undefined until it is known. It follows sign-in and
 * sign-out in all tabs. When the user changes, all lists are forgotten. While the service is away it is asked every 1 to 30 seconds, and
 * `failureReason` says why nothing is known.
 */
export function useSession(): UseQueryResult<Session | null, Fault> {
  useQueries();
  return useQuery(options.askSession());
}

/** A list that is live, as `useEvents` has it. */
export type LiveEvents = UseQueryResult<TaggedList, Fault> & { live: LiveStatus };

/**
 * The events of a world, live: `eventsOptions` without a limit, kept up to date by `watchEvents` while the component is
 * mounted and somebody is signed in, with the user's joins and leaves that are under way on top. `live` is how that is doing: its `status` beside
 * `since` and the last `error`, which may be that of the session. The result's own `status` and `error` are those of the query.
 */
export function useEvents(world: string, query: LiveQuery = {}): LiveEvents {
  const queries = useQueries();
  const session = useQuery(options.askSession());
  // The watch tells what is new, so what has been read does not grow old.
  const list = useQuery({ ...eventsOptions(world, query), enabled: !!session.data, staleTime: Infinity });
  const events = useShown(list.data?.events, session.data);
  const data = useMemo(() => list.data && events && { ...list.data, events }, [list.data, events]);
  const [live, setLive] = useState(connecting);
  const { term, show } = liveList(queries, world, query, session, list);
  useEffect(() => show(setLive), [queries, term]);
  return { ...list, data, live } as LiveEvents;
}

/**
 * The events of a world page by page: `eventPagesOptions` for those who are signed in, with the user's joins and leaves that are under way on top. They
 * are read again after each write of this tab.
 */
export function useEventPages(world: string, query: ListQuery = {}): UseInfiniteQueryResult<WorldEvent[], Fault> {
  useQueries();
  const { data: session } = useQuery(options.askSession());
  const pages = useInfiniteQuery({ ...eventPagesOptions(world, query), enabled: !!session });
  const data = useShown(pages.data, session);
  return { ...pages, data } as UseInfiniteQueryResult<WorldEvent[], Fault>;
}

/** Creates events in a world: `mutate(newEvent)`. `data` is the id; `error.fields` says what is wrong with each field. */
export function useCreateEvent(world: string): UseMutationResult<string, Fault, NewEvent> {
  return useMutation(creation(useQueries(), world));
}

/** Joins events of a world: `mutate(eventId)`. Lists show the user at once, and no longer if it fails. It is pending until they have come with the user. */
export function useJoin(world: string): UseMutationResult<void, Fault, string, Attending> {
  return useMutation(joining(useQueries(), world));
}

/** Leaves events of a world: `mutate(eventId)`. Lists no longer show the user, and do again if it fails. It is pending until they have come without. */
export function useLeave(world: string): UseMutationResult<void, Fault, string, Attending> {
  return useMutation(leaving(useQueries(), world));
}
