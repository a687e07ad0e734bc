/**
 * The worldevents API for React with TanStack Query: the session, lists and their pages as query options, and mutations
 * that show their effect at once.
 *
 * @packageDocumentation
 */
import { infiniteQueryOptions, type QueryClient, queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { connecting, creation, followSession, joining, leaving, liveList, type LiveQuery, type Undo } from "./hooks.js";
import type { NewEvent } from "./index.js";
import * as options from "./query.js";
import type { ListQuery } from "./query.js";

export type { ListQuery, Page } from "./query.js";
export { queryKeys } from "./query.js";

/** Who is signed in, or null: what `useSession` asks. */
export const sessionOptions = () => queryOptions(options.sessionOptions());

/** The events of a world, for `useQuery`. With a `limit` all pages are read, one after the other. */
export const eventsOptions = (world: string, query: ListQuery = {}) => queryOptions(options.eventsOptions(world, query));

/** The events of a world page by page, for `useInfiniteQuery`: `data` is the events of all pages that have been read. */
export const eventPagesOptions = (world: string, query: ListQuery = {}) =>
  infiniteQueryOptions(options.eventPagesOptions(world, query));

/** The queries, which follow the session while any component of this package is mounted. */
function useQueries(): QueryClient {
  const queries = useQueryClient();
  useEffect(() => followSession(queries), [queries]);
  return queries;
}

/**
 * Who is signed in: `data` is the session, null when nobody is, and undefined until it is known. It follows sign-in and
 * sign-out in all tabs. When the user changes, all lists are forgotten.
 */
export function useSession() {
  useQueries();
  return useQuery(sessionOptions());
}

/**
 * The events of a world, live: `eventsOptions` without a limit, kept up to date by `watchEvents` while the component is
 * mounted and somebody is signed in. `live` is how that is doing: its `status` beside `since` and the last `error`. The result's own
 * `status` and `error` are those of the query.
 */
export function useEvents(world: string, query: LiveQuery = {}) {
  const queries = useQueries();
  const session = useQuery(sessionOptions());
  // The watch tells what is new, so what has been read does not grow old.
  const list = useQuery({ ...eventsOptions(world, query), enabled: !!session.data, staleTime: Infinity });
  const [live, setLive] = useState(connecting);
  const { term, show } = liveList(queries, world, query, session, list);
  useEffect(() => show(setLive), [queries, term]);
  return { ...list, live };
}

/** Creates events in a world: `mutate(newEvent)`. `data` is the id; `error.fields` says what is wrong with each field. */
export function useCreateEvent(world: string) {
  return useMutation<string, Error, NewEvent>(creation(useQueries(), world));
}

/** Joins events of a world: `mutate(eventId)`. Lists show the user at once, and no longer if it fails. */
export function useJoin(world: string) {
  return useMutation<void, Error, string, Undo>(joining(useQueries(), world));
}

/** Leaves events of a world: `mutate(eventId)`. Lists no longer show the user, and do again if it fails. */
export function useLeave(world: string) {
  return useMutation<void, Error, string, Undo>(leaving(useQueries(), world));
}
