import { type QueryClient, useInfiniteQuery, useQuery, VueQueryPlugin } from "@tanstack/vue-query";
import { createSSRApp, defineComponent, h, ref } from "vue";
import { renderToString } from "vue/server-renderer";
import * as query from "worldevents-client/query";
import { eventPagesOptions, sessionOptions, useCreateEvent, useEvents, useJoin, useLeave, useSession } from "worldevents-client/vue";

const Events = defineComponent({
  props: { world: { type: String, required: true } },
  setup(props) {
    const session = useSession();
    const events = useEvents(() => props.world);
    const pages = useInfiniteQuery(eventPagesOptions(props.world, { limit: 1 }));
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
  const [id, failed]: [string | undefined, Error | null] = [create.data.value, create.error.value];
  // @ts-expect-error
  useEvents(world, { limit: 1 });
  return [id, failed, useQuery(sessionOptions()).data.value?.username, useQuery(query.eventsOptions(world)).data.value?.etag];
}
