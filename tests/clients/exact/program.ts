// Hands undefined to each function of the client wherever it takes what may be absent. It is type-checked, never run.
import {
  allEvents, type Client, connect, createClient, createEvent, type ErrorCode, eventLists, type Fault, getSession, guardRequest, joinEvent, keepSession, leaveEvent, listEvents, listOf, nextPage,
  onSessionChange, reasonOf, refreshSession, serverClient, type Session, sessionOf, signInUrl, signOut, type Watcher, watchEvents, type WatchOptions, type WorldEvent,
} from "worldevents-client";
import { type QueryClient, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import * as query from "worldevents-client/query";
import {
  eventPagesOptions, eventsOptions, queryKeys, sessionOptions, useCreateEvent, useEventPages, useEvents, useJoin, useLeave, useSession,
} from "worldevents-client/react";
import { useEventPages as useVueEventPages, useEvents as useVueEvents } from "worldevents-client/vue";

declare const client: Client | undefined, signal: AbortSignal | undefined, send: typeof fetch | undefined, call: (() => void) | undefined;
declare const text: string | undefined, number: number | undefined, flag: boolean | undefined, headers: Headers | undefined;
const path = { id: "plaza" };
const body = { name: "Boat trip", description: "", scheduledAt: "2030-01-01T00:00:00Z" };
const list = { from: text, to: text, limit: number, cursor: text };
const [{ from, to }, pages] = [list, { from: text, to: text, limit: number }];

connect({ baseUrl: "", onSignInNeeded: call, fetch: send, throwOnError: undefined });
createClient({ baseUrl: "", onSignInNeeded: call, fetch: send, throwOnError: flag });
serverClient({ baseUrl: "", cookie: text, fetch: send, throwOnError: flag });
keepSession({ baseUrl: "", onSignInNeeded: call, fetch: send });
onSessionChange(() => {}, { client, known: undefined });
signInUrl("/", { client });
await signOut({ client });

const watcher: Watcher = { onList() {}, onError: undefined, onStatus: undefined, signal };
for (const options of [{ path, client, query: list, known: undefined, waitSeconds: number }, { path, client: undefined, query: undefined }] satisfies WatchOptions[]) {
  watchEvents(options, watcher);
  for await (const { events } of eventLists({ ...options, signal, onStatus: undefined })) events.length;
  for await (const { name } of allEvents({ ...options, signal, headers })) name.length;
}

const shared = { client, signal, headers, fetch: send, throwOnError: undefined };
sessionOf(await getSession(shared));
sessionOf(await refreshSession(shared));
nextPage(await listEvents({ path, query: { ...list, wait: number }, ...shared }));
nextPage(await listEvents({ path, query: undefined }));
await createEvent({ path, body, ...shared });
await joinEvent({ path, ...shared });
await leaveEvent({ path, ...shared });
await createEvent({ path, body, headers: { "Idempotency-Key": text } });
await createEvent({ path, body, headers: [["Idempotency-Key", "a"]] });
sessionOf({ response: undefined });
reasonOf({ error: undefined, response: undefined });
reasonOf(await getSession(shared)) satisfies "no_token" | "invalid_token" | "no_refresh_token" | "invalid_refresh_token" | undefined;
await guardRequest(new Request("http://page"), { baseUrl: "", fetch: send });
nextPage({ response: undefined });
listOf({ data: { events: [] }, response: undefined });

watchEvents({ path, waitSeconds: 10 }, {
  onList: ({ events, etag }, asked) => [events satisfies WorldEvent[], etag satisfies string | undefined, asked satisfies number],
  onError: (error, ended) => [error satisfies Fault, ended satisfies boolean],
  onStatus: ({ status, since, error }) => [status satisfies "live" | "connecting" | "offline" | "ended", since satisfies Date, error?.fields?.limit],
});

for (const options of [query, { eventsOptions, eventPagesOptions }]) {
  options.eventsOptions("plaza", pages);
  options.eventsOptions("plaza", undefined);
  options.eventPagesOptions("plaza", pages);
}
useEvents("plaza", { from, to });
useEvents("plaza", undefined);
useVueEvents("plaza", { from, to });
useVueEvents(() => "plaza", () => undefined);
useEventPages("plaza", pages);
useEventPages("plaza", undefined);
useVueEventPages("plaza", pages);
useVueEventPages(() => "plaza", () => undefined);

// What docs/typescript/hooks.md says, in React.
const session = useSession();
session.data satisfies Session | null | undefined;
session.failureReason?.status satisfies number | undefined;
const events = useEvents("plaza");
events.data?.events satisfies WorldEvent[] | undefined;
events.error?.fields?.limit satisfies string | undefined;
events.live.status satisfies "live" | "connecting" | "offline" | "ended";
events.live.since satisfies Date;
events.live.error satisfies Fault | undefined;
events.live.error?.message satisfies string | undefined;
// @ts-expect-error
events.live.error?.nothing;
const paged = useEventPages("plaza", { limit: 2 });
paged.data satisfies WorldEvent[] | undefined;
if (paged.hasNextPage) void paged.fetchNextPage();
useQuery(sessionOptions()).data satisfies Session | null | undefined;
const listed = useQuery(eventsOptions("plaza", { limit: 2 }));
[listed.data?.etag satisfies string | undefined, listed.error?.fields?.limit satisfies string | undefined];
useInfiniteQuery(eventPagesOptions("plaza")).data satisfies WorldEvent[] | undefined;
const create = useCreateEvent("plaza");
create.mutate(body);
create.data satisfies string | undefined;
create.error?.fields?.name satisfies string | undefined;
create.error?.code satisfies ErrorCode | undefined;
create.error?.retryAfter satisfies number | undefined;
// @ts-expect-error
create.error?.nothing;
for (const { mutate, error } of [useJoin("plaza"), useLeave("plaza")]) [mutate("1"), error?.status satisfies number | undefined];
declare const queries: QueryClient;
await queries.prefetchQuery(eventsOptions("plaza"));
queries.setQueryData(sessionOptions().queryKey, null);
queries.getQueryData(eventsOptions("plaza").queryKey)?.events satisfies WorldEvent[] | undefined;
queries.getQueryData(eventPagesOptions("plaza").queryKey)?.pages[0]?.next satisfies string | undefined;
await queries.invalidateQueries({ queryKey: queryKeys.events("plaza") });
// @ts-expect-error
useEvents("plaza", { limit: 2 });

// What must be there must not be undefined, and throwOnError still decides whether there is data.
(await listEvents({ path, throwOnError: true, signal })).data.events.length;
(await connect({ baseUrl: "", throwOnError: true, fetch: send }).listEvents({ path, signal })).data.events.length;
// @ts-expect-error
(await listEvents({ path, signal })).data.events;
// @ts-expect-error
await listEvents({ path: undefined });
// @ts-expect-error
await listEvents({ path: { id: undefined } });
// @ts-expect-error
await createEvent({ path, body: { ...body, name: text } });
// @ts-expect-error
await listEvents({ path, query: { limit: "2" } });
// @ts-expect-error
await listEvents({ path, query: { limt: 2 } });
