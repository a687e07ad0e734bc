// Hands undefined to each function of the client wherever it takes what may be absent. It is type-checked, never run.
import {
  allEvents, type Client, connect, createClient, createEvent, eventLists, getSession, guardRequest, joinEvent, keepSession, leaveEvent, listEvents, listOf, nextPage,
  onSessionChange, reasonOf, refreshSession, serverClient, sessionOf, signInUrl, signOut, type Watcher, watchEvents, type WatchOptions,
} from "worldevents-client";
import * as query from "worldevents-client/query";
import { eventPagesOptions, eventsOptions, useEvents } from "worldevents-client/react";
import { useEvents as useVueEvents } from "worldevents-client/vue";

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
for (const options of [{ path, client, query: list, known: undefined }, { path, client: undefined, query: undefined }] satisfies WatchOptions[]) {
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

for (const options of [query, { eventsOptions, eventPagesOptions }]) {
  options.eventsOptions("plaza", pages);
  options.eventsOptions("plaza", undefined);
  options.eventPagesOptions("plaza", pages);
}
useEvents("plaza", { from, to });
useEvents("plaza", undefined);
useVueEvents("plaza", { from, to });
useVueEvents(() => "plaza", () => undefined);

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
