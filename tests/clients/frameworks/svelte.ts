// For its types alone: tsc does not read Events.svelte.
import { createInfiniteQuery, createQuery } from "@tanstack/svelte-query";
import { eventPagesOptions, eventsOptions, sessionOptions } from "worldevents-client/query";

export function texts(world: string) {
  const session = createQuery(() => sessionOptions());
  const events = createQuery(() => eventsOptions(world));
  const pages = createInfiniteQuery(() => eventPagesOptions(world, { limit: 1 }));
  const user: string | undefined = session.data?.username;
  const names: string[] | undefined = events.data?.events.map((event) => event.name);
  return [user, names?.join(), pages.data?.map((event) => event.name).join()];
}
