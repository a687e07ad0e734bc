import type { QueryClient } from "@tanstack/svelte-query";
import { render as renderComponent } from "svelte/server";
import App from "./App.svelte";

export { QueryClient } from "@tanstack/svelte-query";
export { connect, createEvent } from "worldevents-client";
export { eventPagesOptions, eventsOptions, sessionOptions } from "worldevents-client/svelte";

export const render = async (client: QueryClient, world: string): Promise<string> =>
  (await renderComponent(App, { props: { client, world } })).body;
