/**
 * The worldevents API for Svelte 5 with TanStack Query: the session, lists and their pages as query options, and mutations
 * that show their effect at once. What may change is a function, such as `() => world`, as it is for `createQuery`. Call
 * these while a component begins.
 *
 * @packageDocumentation
 */
import { createMutation, type CreateMutationResult, createQuery, type CreateQueryResult, useQueryClient } from "@tanstack/svelte-query";
import { onMount } from "svelte";
import { fromStore, toStore, writable } from "svelte/store";
import { connecting, creation, followSession, joining, leaving, liveList, type LiveQuery, type Queries, type Undo } from "./hooks.js";
import type { LiveStatus, NewEvent, Session, TaggedList } from "./index.js";
import { eventsOptions, sessionOptions } from "./query.js";
import { inBrowser } from "./session.js";

export type { ListQuery, Page } from "./query.js";
export { eventPagesOptions, eventsOptions, queryKeys, sessionOptions } from "./query.js";

/** The queries, which follow the session while any component of this package is mounted. */
function useQueries(): Queries {
  const queries = useQueryClient();
  onMount(() => followSession(queries));
  return queries;
}

/** The session; a server that renders a page shows what it has, and asks for nothing. */
const askSession = () => createQuery(() => ({ ...sessionOptions(), enabled: inBrowser() }));

/**
 * Who is signed in: `data` is the session, null when nobody is, and undefined until it is known. It follows sign-in and
 * sign-out in all tabs. When the user changes, all lists are forgotten.
 */
export function useSession(): CreateQueryResult<Session | null, Error> {
  useQueries();
  return askSession();
}

/**
 * The events of a world, live: `eventsOptions` without a limit, kept up to date by `watchEvents` while the component is
 * mounted and somebody is signed in. `live` is how that is doing: its `status` beside `since` and the last `error`. The result's own
 * `status` and `error` are those of the query.
 */
export function useEvents(
  world: () => string, query: () => LiveQuery | undefined = () => ({}),
): CreateQueryResult<TaggedList, Error> & { readonly live: LiveStatus } {
  const queries = useQueries();
  const session = askSession();
  // The watch tells what is new, so what has been read does not grow old.
  const list = createQuery(() => ({
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
  return new Proxy(list as typeof list & { live: LiveStatus }, {
    get: (list, name) => name === "live" ? current.current : Reflect.get(list, name),
  });
}

/** Creates events in a world: `mutate(newEvent)`. `data` is the id; `error.fields` says what is wrong with each field. */
export function useCreateEvent(world: () => string): CreateMutationResult<string, Error, NewEvent, unknown> {
  const queries = useQueries();
  return createMutation(() => creation(queries, world()));
}

/** Joins events of a world: `mutate(eventId)`. Lists show the user at once, and no longer if it fails. */
export function useJoin(world: () => string): CreateMutationResult<void, Error, string, Undo> {
  const queries = useQueries();
  return createMutation(() => joining(queries, world()));
}

/** Leaves events of a world: `mutate(eventId)`. Lists no longer show the user, and do again if it fails. */
export function useLeave(world: () => string): CreateMutationResult<void, Error, string, Undo> {
  const queries = useQueries();
  return createMutation(() => leaving(queries, world()));
}
