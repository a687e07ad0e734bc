/**
 * The worldevents API for Vue with TanStack Query: the session, lists and their pages as query options, and mutations that
 * show their effect at once. What is `MaybeRefOrGetter` may be a value, a ref, or a getter such as `() => props.world`.
 *
 * @packageDocumentation
 */
import {
  useInfiniteQuery, type UseInfiniteQueryReturnType, useMutation, type UseMutationReturnType, useMutationState, useQuery, useQueryClient,
  type UseQueryReturnType,
} from "@tanstack/vue-query";
import { computed, type MaybeRefOrGetter, reactive, type Ref, shallowRef, type ShallowRef, toValue, watchPostEffect } from "vue";
import {
  type Attending, type Change, connecting, creation, followUser, joining, leaving, type LiveList, liveList, type LiveQuery, type Queries,
  underWay, withChanges,
} from "./hooks.js";
import type { Fault, LiveStatus, NewEvent, Session, TaggedList, WorldEvent } from "./index.js";
import { askSession, eventPagesOptions, eventsOptions, type ListQuery } from "./query.js";
import { inBrowser } from "./session.js";

export type { ListQuery, Page } from "./query.js";
export { eventPagesOptions, eventsOptions, queryKeys, sessionOptions } from "./query.js";

/** The queries, which follow the session while any component of this package is mounted. */
function useQueries(): Queries {
  const queries = useQueryClient();
  watchPostEffect((onCleanup) => onCleanup(followUser(queries)));
  return queries;
}

/** The session; a server that renders a page shows what it has, and asks for nothing. */
const useAsked = (): UseQueryReturnType<Session | null, Fault> => useQuery({ ...askSession(), enabled: inBrowser(), shallow: true });

/** Puts what is under way on top of events. */
function useShown(session: Ref<Session | null | undefined>): (events: WorldEvent[]) => WorldEvent[] {
  const changes = useMutationState<Change>(underWay);
  return (events) => withChanges(events, changes.value, session.value);
}

/**
 * Who is signed in: `data` is the session, null when nobody is, and undefined until it is known. It follows sign-in and
 * sign-out in all tabs. When the user changes, all lists are forgotten. While the service is away it is asked every 1 to 30 seconds, and
 * `failureReason` says why nothing is known.
 */
export function useSession(): UseQueryReturnType<Session | null, Fault> {
  useQueries();
  return useAsked();
}

/** A list that is live, as `useEvents` has it. */
export type LiveEvents = UseQueryReturnType<TaggedList, Fault> & { live: Readonly<ShallowRef<LiveStatus>> };

/**
 * The events of a world, live: `eventsOptions` without a limit, kept up to date by `watchEvents` while the component is
 * mounted and somebody is signed in, with the user's joins and leaves that are under way on top. `live` is how that is doing: its `status` beside
 * `since` and the last `error`, which may be that of the session. The result's own `status` and `error` are those of the query.
 */
export function useEvents(world: MaybeRefOrGetter<string>, query: MaybeRefOrGetter<LiveQuery | undefined> = {}): LiveEvents {
  const queries = useQueries();
  const session = useAsked();
  // The watch tells what is new, so what has been read does not grow old.
  const list: UseQueryReturnType<TaggedList, Fault> = useQuery(computed(() => ({
    ...eventsOptions(toValue(world), toValue(query)), enabled: inBrowser() && !!session.data.value, staleTime: Infinity, shallow: true,
  })));
  const live = shallowRef(connecting());
  const [known, read] = [reactive(session), reactive(list)];
  const term = computed<LiveList>((before) => {
    const now = liveList(queries, toValue(world), toValue(query) ?? {}, known, read);
    return before?.term === now.term ? before : now;
  });
  watchPostEffect((onCleanup) => onCleanup(term.value.show((status) => (live.value = status))));
  const shown = useShown(session.data);
  const data = computed(() => list.data.value && { ...list.data.value, events: shown(list.data.value.events) });
  return { ...list, data, live } as LiveEvents;
}

/**
 * The events of a world page by page: `eventPagesOptions` for those who are signed in, with the user's joins and leaves that are under way on top. They
 * are read again after each write of this tab.
 */
export function useEventPages(
  world: MaybeRefOrGetter<string>, query: MaybeRefOrGetter<ListQuery | undefined> = {},
): UseInfiniteQueryReturnType<WorldEvent[], Fault> {
  useQueries();
  const session = useAsked();
  const pages = useInfiniteQuery(computed(() => ({
    ...eventPagesOptions(toValue(world), toValue(query)), enabled: inBrowser() && !!session.data.value, shallow: true,
  })));
  const shown = useShown(session.data);
  const data = computed(() => pages.data.value && shown(pages.data.value));
  return { ...pages, data } as UseInfiniteQueryReturnType<WorldEvent[], Fault>;
}

/** Creates events in a world: `mutate(newEvent)`. `data` is the id; `error.fields` says what is wrong with each field. */
export function useCreateEvent(world: MaybeRefOrGetter<string>): UseMutationReturnType<string, Fault, NewEvent, unknown> {
  const queries = useQueries();
  return useMutation(computed(() => creation(queries, toValue(world))));
}

/** Joins events of a world: `mutate(eventId)`. Lists show the user at once, and no longer if it fails. It is pending until they have come with the user. */
export function useJoin(world: MaybeRefOrGetter<string>): UseMutationReturnType<void, Fault, string, Attending> {
  const queries = useQueries();
  return useMutation(computed(() => joining(queries, toValue(world))));
}

/** Leaves events of a world: `mutate(eventId)`. Lists no longer show the user, and do again if it fails. It is pending until they have come without. */
export function useLeave(world: MaybeRefOrGetter<string>): UseMutationReturnType<void, Fault, string, Attending> {
  const queries = useQueries();
  return useMutation(computed(() => leaving(queries, toValue(world))));
}
