import type { ApiError } from "../generated/kubb-query";
import {
  getSessionQueryOptions, listEventsQueryOptions, useCreateEvent, useJoinEvent, useLeaveEvent, useRefreshSession,
} from "../generated/kubb-query";
import { config } from "./kubb-client";
import { queries, rendered, scenario } from "./scenario";

export function run(baseUrl: string, world: string) {
  config.baseURL = baseUrl;
  return scenario({
    session: () => queries.fetchQuery(getSessionQueryOptions()),
    refresh: () => rendered(() => useRefreshSession()).mutateAsync(),
    create: (id, data) => rendered(() => useCreateEvent()).mutateAsync({ id, data }),
    list: (id, credentials = "include") => queries.fetchQuery(listEventsQueryOptions(id, { limit: 10 }, undefined, { credentials })),
    join: (id) => rendered(() => useJoinEvent()).mutateAsync({ id }),
    leave: (id) => rendered(() => useLeaveEvent()).mutateAsync({ id }),
  }, world, (error) => error as ApiError);
}
