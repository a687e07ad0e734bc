/**
 * The worldevents API for Svelte 5 with TanStack Query: the session, lists and their pages as query options, and mutations
 * that show their effect at once. What may change is a function, such as `() => world`, as it is for `createQuery`. Call
 * these while a component begins.
 *
 * @packageDocumentation
 */
import {
  createInfiniteQuery, type CreateInfiniteQueryResult, createMutation, type CreateMutationResult, createQuery, type CreateQueryResult, useMutationState,
  useQueryClient,
} from "@tanstack/svelte-query";
import { onMount } from "svelte";
import { fromStore, toStore, writable } from "svelte/store";
import {
  type Attending, type Change, connecting, creation, followUser, joining, leaving, liveList, type LiveQuery, type Queries, underWay, withChanges,
} from "./hooks.js";
import type { Fault, LiveStatus, NewEvent, Session, TaggedList, WorldEvent } from "./index.js";
import { askSession, eventPagesOptions, eventsOptions, type ListQuery } from "./query.js";
import { inBrowser } from "./session.js";

export type { ListQuery, Page } from "./query.js";
export { eventPagesOptions, eventsOptions, queryKeys, sessionOptions } from "./query.js";

/** The queries, which follow the session while any component of this package is mounted. */
function useQueries(): Queries {
  const queries = useQueryClient();
  onMount(() => followUser(queries));
  return queries;
}

/** The session; a server that renders a page shows what it has, and asks for nothing. */
const useAsked = (): CreateQueryResult<Session | null, Fault> => createQuery(() => ({ ...askSession(), enabled: inBrowser() }));

/** Puts what is under way on top of events. */
function useShown(session: { data: Session | null | undefined }): (events: WorldEvent[]) => WorldEvent[] {
  const changes = useMutationState<Change>(underWay);
  return (events) => withChanges(events, changes, session.data);
}

/** A result whose members of these names are others. */
const withMembers = <R extends object, M extends object>(result: R, members: M): R & M =>
  new Proxy(result as R & M, { get: (result, name) => Reflect.get(name in members ? members : result, name) });

/**
 * Who is signed in: `data` is the session, null when nobody is, and undefined until it is known. It follows sign-in and
 * sign-out in all tabs. When the user changes, all lists are forgotten. While the service is away it is asked every 1 to 30 seconds, and
 * `failureReason` says why nothing is known.
 */
export function useSession(): CreateQueryResult<Session | null, Fault> {
  useQueries();
  return useAsked();
}

/** A list that is live, as `useEvents` has it. */
export type LiveEvents = CreateQueryResult<TaggedList, Fault> & { readonly live: LiveStatus };

/**
 * The events of a world, live: `eventsOptions` without a limit, kept up to date by `watchEvents` while the component is
 * mounted and somebody is signed in, with the user's joins and leaves that are under way on top. `live` is how that is doing: its `status` beside
 * `since` and the last `error`, which may be that of the session. The result's own `status` and `error` are those of the query.
 */
export function useEvents(world: () => string, query: () => LiveQuery | undefined = () => ({})): LiveEvents {
  const queries = useQueries();
  const session = useAsked();
  // The watch tells what is new, so what has been read does not grow old.
  const list: CreateQueryResult<TaggedList, Fault> = createQuery(() => ({
    ...eventsOptions(world(), query()), enabled: inBrowser() && !!session.data, staleTime: Infinity,
  }));
  const live = writable(connecting());
  const current = fromStore(live);
  const asked = () => liveList(queries, world(), query() ?? {}, session, list);
  const term = toStore(() => asked().term);
  onMount(() => {
    let stop = () => {};
    const end = term.subscribe(() => {
      stop();
      stop = asked().show(live.set);
    });
    return () => {
      end();
      stop();
    };
  });
  const shown = useShown(session);
  return withMembers(list, {
    get data() {
      return list.data && { ...list.data, events: shown(list.data.events) };
    },
    get live() {
      return current.current;
    },
  }) as LiveEvents;
}

/**
 * The events of a world page by page: `eventPagesOptions` for those who are signed in, with the user's joins and leaves that are under way on top. They
 * are read again after each write of this tab.
 */
export function useEventPages(
  world: () => string, query: () => ListQuery | undefined = () => ({}),
): CreateInfiniteQueryResult<WorldEvent[], Fault> {
  useQueries();
  const session = useAsked();
  const pages: CreateInfiniteQueryResult<WorldEvent[], Fault> = createInfiniteQuery(() => ({
    ...eventPagesOptions(world(), query()), enabled: inBrowser() && !!session.data,
  }));
  const shown = useShown(session);
  return withMembers(pages, {
    get data() {
      return pages.data && shown(pages.data);
    },
  }) as CreateInfiniteQueryResult<WorldEvent[], Fault>;
}

/** Creates events in a world: `mutate(newEvent)`. `data` is the id; `error.fields` says what is wrong with each field. */
export function useCreateEvent(world: () => string): CreateMutationResult<string, Fault, NewEvent, unknown> {
  const queries = useQueries();
  return createMutation(() => creation(queries, world()));
}

/** Joins events of a world: `mutate(eventId)`. Lists show the user at once, and no longer if it fails. It is pending until they have come with the user. */
export function useJoin(world: () => string): CreateMutationResult<void, Fault, string, Attending> {
  const queries = useQueries();
  return createMutation(() => joining(queries, world()));
}

/** Leaves events of a world: `mutate(eventId)`. Lists no longer show the user, and do again if it fails. It is pending until they have come without. */
export function useLeave(world: () => string): CreateMutationResult<void, Fault, string, Attending> {
  const queries = useQueries();
  return createMutation(() => leaving(queries, world()));
}
