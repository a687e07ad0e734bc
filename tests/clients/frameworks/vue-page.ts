export { QueryClient } from "@tanstack/vue-query";
export { connect, createEvent } from "worldevents-client";
export * from "worldevents-client/query";
export { render } from "./vue";
