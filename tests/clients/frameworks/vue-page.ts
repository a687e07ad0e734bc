export { QueryClient } from "@tanstack/vue-query";
export { connect, createEvent } from "worldevents-client";
export { eventPagesOptions, eventsOptions, sessionOptions } from "worldevents-client/vue";
export { render } from "./vue";
