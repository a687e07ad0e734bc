/**
 * The worldevents API for Vue with TanStack Query: the session, lists and their pages as query options, and mutations that
 * show their effect at once. What is `MaybeRefOrGetter` may be a value, a ref, or a getter such as `() => props.world`.
 *
 * @packageDocumentation
 */
import { useMutation, type UseMutationReturnType, useQuery, useQueryClient, type UseQueryReturnType } from "@tanstack/vue-query";
import { computed, type MaybeRefOrGetter, reactive, shallowRef, type ShallowRef, toValue, watchPostEffect } from "vue";
import { connecting, creation, followSession, joining, leaving, type LiveList, liveList, type LiveQuery, type Queries, type Undo } from "./hooks.js";
import type { LiveStatus, NewEvent, Session, TaggedList } from "./index.js";
import { eventsOptions, sessionOptions } from "./query.js";
import { inBrowser } from "./session.js";

export type { ListQuery, Page } from "./query.js";
export { eventPagesOptions, eventsOptions, queryKeys, sessionOptions } from "./query.js";

/** The queries, which follow the session while any component of this package is mounted. */
function useQueries(): Queries {
  const queries = useQueryClient();
  watchPostEffect((onCleanup) => onCleanup(followSession(queries)));
  return queries;
}

/** The session; a server that renders a page shows what it has, and asks for nothing. */
const askSession = () => useQuery({ ...sessionOptions(), enabled: inBrowser(), shallow: true });

/**
 * Who is signed in: `data` is the session, null when nobody is, and undefined until it is known. It follows sign-in and
 * sign-out in all tabs. When the user changes, all lists are forgotten.
 */
export function useSession(): UseQueryReturnType<Session | null, Error> {
  useQueries();
  return askSession();
}

/**
 * The events of a world, live: `eventsOptions` without a limit, kept up to date by `watchEvents` while the component is
 * mounted and somebody is signed in. `live` is how that is doing: its `status` beside `since` and the last `error`. The result's own
 * `status` and `error` are those of the query.
 */
export function useEvents(
  world: MaybeRefOrGetter<string>, query: MaybeRefOrGetter<LiveQuery | undefined> = {},
): UseQueryReturnType<TaggedList, Error> & { live: Readonly<ShallowRef<LiveStatus>> } {
  const queries = useQueries();
  const session = askSession();
  // The watch tells what is new, so what has been read does not grow old.
  const list = useQuery(computed(() => ({
    ...eventsOptions(toValue(world), toValue(query)), enabled: inBrowser() && !!session.data.value, staleTime: Infinity, shallow: true,
  })));
  const live = shallowRef(connecting());
  const [known, read] = [reactive(session), reactive(list)];
  const shown = computed<LiveList>((before) => {
    const now = liveList(queries, toValue(world), toValue(query) ?? {}, known, read);
    return before?.term === now.term ? before : now;
  });
  watchPostEffect((onCleanup) => onCleanup(shown.value.show((status) => (live.value = status))));
  return { ...list, live };
}

/** Creates events in a world: `mutate(newEvent)`. `data` is the id; `error.fields` says what is wrong with each field. */
export function useCreateEvent(world: MaybeRefOrGetter<string>): UseMutationReturnType<string, Error, NewEvent, unknown> {
  const queries = useQueries();
  return useMutation(computed(() => creation(queries, toValue(world))));
}

/** Joins events of a world: `mutate(eventId)`. Lists show the user at once, and no longer if it fails. */
export function useJoin(world: MaybeRefOrGetter<string>): UseMutationReturnType<void, Error, string, Undo> {
  const queries = useQueries();
  return useMutation(computed(() => joining(queries, toValue(world))));
}

/** Leaves events of a world: `mutate(eventId)`. Lists no longer show the user, and do again if it fails. */
export function useLeave(world: MaybeRefOrGetter<string>): UseMutationReturnType<void, Error, string, Undo> {
  const queries = useQueries();
  return useMutation(computed(() => leaving(queries, toValue(world))));
}
