/**
 * The session and lists as query options, for TanStack Query in any framework: plain objects, which need none of it here.
 *
 * @packageDocumentation
 */
import { reading } from "./events.js";
import {
  allEvents, CallError, client, type EventList, type Fault, getSession, listEvents, listOf, nextPage, reasonOf, type Session, sessionOf, type TaggedList,
  type WatchOptions, type WorldEvent,
} from "./index.js";

/** What selects events of a world: `from`, `to`, and `limit` for the size of a page. */
export type ListQuery = Omit<NonNullable<WatchOptions["query"]>, "cursor">;

/** A page of a list, and the cursor of the next one. */
export type Page = EventList & { next: string | undefined };

/** The keys of the queries. Lists of a world begin with `events(world)`, all lists with `allEvents`. */
export const queryKeys = {
  session: ["worldevents", "session"] as const,
  allEvents: ["worldevents", "events"] as const,
  events: (world: string) => ["worldevents", "events", world] as const,
};

/** The events of what a query has: a list, or its pages. */
export const eventsOf = (data: unknown): WorldEvent[] => {
  const { events = [], pages } = (data ?? {}) as { events?: WorldEvent[]; pages?: Page[] };
  return pages ? pages.flatMap((page) => page.events) : events;
};

/** How many seconds the response of a list may take to begin. */
const maxSilence = 35;

/** What a query hands to its function. */
export interface Call {
  signal?: AbortSignal | undefined;
}

/** The client repeats what the service says can be repeated, and refreshes by itself. What a proxy says may be over in a moment. */
const retry = (failures: number, error: Fault) => !error.code && failures < 2;

/** Who is signed in, or null: for a query. */
export const sessionOptions = () => ({
  queryKey: queryKeys.session,
  queryFn: async ({ signal }: Call): Promise<Session | null> => {
    const result = await getSession({ signal, throwOnError: false });
    if (result.data) return sessionOf(result);
    if (reasonOf(result)) return null;
    throw new CallError(result.response?.status ?? 0, result.error, result.response?.headers);
  },
  staleTime: Infinity,
  retry,
});

const mayRecover = (error: Fault): boolean => !error.code || error.status === 429 || error.status >= 500;

/** The session for a component, which can show nothing without it: until the service says who is signed in it is asked, every 1 to 30 seconds. */
export const askSession = () => ({
  ...sessionOptions(),
  retry: (_failures: number, error: Fault) => mayRecover(error),
  // Somebody else may have asked for it, who has given up.
  refetchInterval: ({ state }: { state: { status: string; error: Fault | null } }) => state.status === "error" && mayRecover(state.error!) && 30_000,
  retryDelay: (failures: number, error: Fault) => Math.min(30, Math.max(error.retryAfter ?? 0, 2 ** failures)) * 1_000,
});

/** The events of a world, for a query. With a `limit` all pages are read, one after the other. */
export const eventsOptions = (world: string, query: ListQuery = {}) => ({
  queryKey: [...queryKeys.events(world), "list", query],
  queryFn: async ({ signal }: Call): Promise<TaggedList> => {
    const options = { path: { id: world }, query, throwOnError: true as const };
    return reading(client, maxSilence, signal, async (limits) => {
      if (query.limit === undefined) return listOf(await listEvents({ ...options, ...limits }));
      const events: WorldEvent[] = [];
      for await (const event of allEvents({ ...options, ...limits })) events.push(event);
      return { events };
    });
  },
  retry,
});

/** The events of a world page by page, for an infinite query: `data` is the events of all pages that have been read. */
export const eventPagesOptions = (world: string, query: ListQuery = {}) => ({
  queryKey: [...queryKeys.events(world), "pages", query],
  queryFn: async ({ signal, pageParam }: Call & { pageParam: string | undefined }): Promise<Page> => {
    const cursor = pageParam === undefined ? {} : { cursor: pageParam };
    const page = await reading(client, maxSilence, signal, (limits) => listEvents({
      path: { id: world }, query: { ...query, limit: query.limit ?? 20, ...cursor }, ...limits, throwOnError: true,
    }));
    return { ...page.data, next: nextPage(page)?.cursor };
  },
  initialPageParam: undefined as string | undefined,
  getNextPageParam: (page: Page) => page.next,
  select: (data: { pages: Page[] }) => eventsOf(data),
  retry,
});
