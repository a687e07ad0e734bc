import { type QueryClient, useInfiniteQuery, useQuery, VueQueryPlugin } from "@tanstack/vue-query";
import { createSSRApp, defineComponent, h } from "vue";
import { renderToString } from "vue/server-renderer";
import { eventPagesOptions, eventsOptions, sessionOptions } from "worldevents-client/query";

const Events = defineComponent({
  props: { world: { type: String, required: true } },
  setup({ world }) {
    const session = useQuery(sessionOptions());
    const events = useQuery(eventsOptions(world));
    const pages = useInfiniteQuery(eventPagesOptions(world, { limit: 1 }));
    return () => {
      const user: string | undefined = session.data.value?.username;
      const names: string[] | undefined = events.data.value?.events.map((event) => event.name);
      return h("p", `${user}: ${names?.join()}; ${pages.data.value?.map((event) => event.name).join()}`);
    };
  },
});

export const render = (queryClient: QueryClient, world: string) =>
  renderToString(createSSRApp(Events, { world }).use(VueQueryPlugin, { queryClient }));
