/** Operations on events that the generated ones do not spell out: the id of a new event, the tag of a list, and all its pages. */
import type { Options } from "./api/index.js";
import type {
  CreateEventData, CreateEventErrors, EventList, ListEventsData, Success, WorldEvent,
} from "./api/index.js";
import type { RequestResult } from "./api/client/index.js";
import * as api from "./api/sdk.gen.js";
import type { Client } from "./api/client/index.js";
import { CallError } from "./errors.js";
import { type Session, within } from "./session.js";

/** A new event's id, beside what the service says. */
export type Created = Success & { id: string };

/** Schedules an event in a world. The creator has joined it. The result's `data` has the id of the new event. */
export function createEvent<ThrowOnError extends boolean = false>(
  options: Options<CreateEventData, ThrowOnError>,
): RequestResult<{ 200: Created }, CreateEventErrors, ThrowOnError> {
  const created = api.createEvent(options).then((result) => {
    if (!result.data) return result;
    const id = result.response?.headers.get("Event-Id");
    if (!id) throw new CallError(result.response?.status ?? 0, result.data, result.response?.headers);
    Object.assign(result.data, { id });
    return result;
  });
  return created as unknown as RequestResult<{ 200: Created }, CreateEventErrors, ThrowOnError>;
}

/** How long, in milliseconds, a list may take: a long one on a slow connection minutes. */
const maxReading = 300_000;

/** Has a list read whose response begins within so many seconds, and is whole within five minutes. */
export const reading = <T>(
  client: Client, seconds: number, signal: AbortSignal | undefined, read: (limits: { signal: AbortSignal; fetch: typeof fetch }) => Promise<T>,
): Promise<T> => within(maxReading, (signal) => read({
  signal, fetch: (...request) => within(seconds * 1_000, () => (client.getConfig().fetch ?? fetch)(...request)),
}), signal);

/** A list and its `ETag`, which stands for all that is in it. Where a proxy takes it away there is none. */
export type TaggedList = EventList & { etag?: string | undefined };

/**
 * The list of a result of `listEvents`, with its tag: what a watch goes on from, as `known`. It is plain JSON, so the page that a server
 * renders may bring it to the browser.
 */
export function listOf({ data, response }: { data: EventList; response?: Response | undefined }): TaggedList {
  return { ...data, etag: response?.headers.get("ETag") ?? undefined };
}

/** The query of the page after a result of `listEvents` with a limit, from its `Link`; undefined after the last page. */
export function nextPage({ response }: { response?: Response | undefined }): { cursor: string } | undefined {
  const next = response?.headers.get("Link")?.match(/<([^>]*)>\s*;\s*rel="?next"?/)?.[1];
  const cursor = next && new URL(next, "http://service").searchParams.get("cursor");
  return cursor ? { cursor } : undefined;
}

/**
 * Every event of a list, page by page: `query.limit` events (100 if it is not given) are in memory at a time. Rejects
 * with `CallError`, also when a page leads to itself, or would have more than 32 MiB.
 */
export async function* allEvents(options: Options<ListEventsData, true>): AsyncGenerator<WorldEvent, void, undefined> {
  let query = { ...options.query, limit: options.query?.limit ?? 100 };
  for (;;) {
    const page = await api.listEvents({ ...options, query, throwOnError: true });
    yield* page.data.events;
    const next = nextPage(page);
    if (!next) return;
    // A cache that ignores the query would give this page for ever.
    if (next.cursor === query.cursor) throw new CallError(page.response.status, page.data, page.response.headers);
    query = { ...query, ...next };
  }
}

/** When this hour began, in UTC. */
const hour = () => `${new Date().toISOString().slice(0, 13)}:00:00Z`;

let next = { from: "" }, before = { to: "" };

/** The query of the events from the beginning of this hour on. It is the same object until the hour ends, so a render may call this. */
export const upcoming = (): Readonly<typeof next> => next.from === hour() ? next : (next = { from: hour() });

/** The query of the events before this hour: of all that `upcoming` leaves out. It is the same object until the hour ends, too. */
export const past = (): Readonly<typeof before> => before.to === hour() ? before : (before = { to: hour() });

/** Reports whether the user of a session has joined an event. */
export const hasJoined = ({ RSVPs }: Pick<WorldEvent, "RSVPs">, session: Pick<Session, "username"> | null | undefined): boolean =>
  RSVPs.some(({ user }) => user.username === session?.username);
