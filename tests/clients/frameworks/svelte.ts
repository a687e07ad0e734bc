// For its types alone: tsc does not read Events.svelte.
import { createInfiniteQuery, createQuery } from "@tanstack/svelte-query";
import type { Fault, Session, WorldEvent } from "worldevents-client";
import * as query from "worldevents-client/query";
import {
  eventPagesOptions, eventsOptions, sessionOptions, useCreateEvent, useEventPages, useEvents, useJoin, useLeave, useSession,
} from "worldevents-client/svelte";

export function texts(world: string, from: string | undefined) {
  const session = useSession();
  const events = useEvents(() => world, () => from === undefined ? undefined : { from, to: undefined });
  const pages = createInfiniteQuery(() => eventPagesOptions(world, { limit: 1 }));
  const user: string | undefined = session.data?.username;
  const names: string[] | undefined = events.data?.events.map((event) => event.name);
  const status: "live" | "connecting" | "offline" | "ended" = events.live.status;
  const asked: (string | undefined)[] = [createQuery(() => sessionOptions()).data?.username, createQuery(() => query.eventsOptions(world)).data?.etag];
  return [user, names?.join(), pages.data?.map((event) => event.name).join(), status, ...asked, eventsOptions(world).queryKey.join()];
}

export function change(world: string) {
  const create = useCreateEvent(() => world);
  create.mutate({ name: "x", description: "", scheduledAt: "2030-01-01T00:00:00Z" });
  for (const { mutate } of [useJoin(() => world), useLeave(() => world)]) mutate("1");
  const [id, failed]: [string | undefined, Fault | null] = [create.data, create.error];
  // @ts-expect-error
  useEvents(world);
  // @ts-expect-error
  useEvents(() => world, () => ({ limit: 1 }));
  // @ts-expect-error
  create.error?.nothing;
  return [id, failed, create.error?.fields?.name satisfies string | undefined];
}

export function promised(world: string) {
  const [session, { live, error }, pages] = [useSession(), useEvents(() => world), useEventPages(() => world, () => ({ limit: 2, from: undefined }))];
  if (pages.hasNextPage) void pages.fetchNextPage();
  // @ts-expect-error
  live.error?.nothing;
  return [
    session.data satisfies Session | null | undefined, session.failureReason?.status satisfies number | undefined, pages.data satisfies WorldEvent[] | undefined,
    live.error satisfies Fault | undefined, live.since satisfies Date, error?.fields?.limit satisfies string | undefined,
  ];
}
