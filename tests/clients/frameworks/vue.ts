import { type QueryClient, useInfiniteQuery, useQuery, VueQueryPlugin } from "@tanstack/vue-query";
import { createSSRApp, defineComponent, h, ref } from "vue";
import { renderToString } from "vue/server-renderer";
import type { Fault, Session, WorldEvent } from "worldevents-client";
import * as query from "worldevents-client/query";
import {
  eventPagesOptions, sessionOptions, useCreateEvent, useEventPages, useEvents, useJoin, useLeave, useSession,
} from "worldevents-client/vue";

const Events = defineComponent({
  props: { world: { type: String, required: true } },
  setup(props) {
    const session = useSession();
    const events = useEvents(() => props.world);
    const pages = useEventPages(() => props.world, { limit: 1 });
    return () => {
      const user: string | undefined = session.data.value?.username;
      const names: string[] | undefined = events.data.value?.events.map((event) => event.name);
      const status: "live" | "connecting" | "offline" | "ended" = events.live.value.status;
      return h("p", `${user}: ${names?.join()}; ${pages.data.value?.map((event) => event.name).join()}; ${status}`);
    };
  },
});

export const render = (queryClient: QueryClient, world: string) =>
  renderToString(createSSRApp(Events, { world }).use(VueQueryPlugin, { queryClient }));

/** For its types alone. */
export function change(world: string) {
  useEvents(ref(world), ref({ from: "2030-01-01T00:00:00Z" }));
  const create = useCreateEvent(world);
  create.mutate({ name: "x", description: "", scheduledAt: "2030-01-01T00:00:00Z" });
  for (const { mutate } of [useJoin(ref(world)), useLeave(() => world)]) mutate("1");
  const [id, failed]: [string | undefined, Fault | null] = [create.data.value, create.error.value];
  create.error.value?.fields?.name satisfies string | undefined;
  // @ts-expect-error
  create.error.value?.nothing;
  // @ts-expect-error
  useEvents(world, { limit: 1 });
  return [id, failed, useQuery(sessionOptions()).data.value?.username, useQuery(query.eventsOptions(world)).data.value?.etag];
}

/** For its types alone. */
export function promised(world: string) {
  const [session, { live, error }, pages] = [useSession(), useEvents(world), useEventPages(ref(world), () => ({ limit: 2, from: undefined }))];
  if (pages.hasNextPage.value) void pages.fetchNextPage();
  // @ts-expect-error
  live.value.error?.nothing;
  return [
    session.data.value satisfies Session | null | undefined, session.failureReason.value?.status satisfies number | undefined,
    pages.data.value satisfies WorldEvent[] | undefined, live.value.error satisfies Fault | undefined, live.value.since satisfies Date,
    error.value?.fields?.limit satisfies string | undefined,
    useInfiniteQuery(eventPagesOptions(world, { limit: 1 })).data.value satisfies WorldEvent[] | undefined,
  ];
}
