import type { ListEventsQueryError } from "../generated/orval-query/api";
import {
  getGetSessionQueryOptions, getListEventsQueryOptions, useCreateEvent, useJoinEvent, useLeaveEvent, useRefreshSession,
} from "../generated/orval-query/api";
import { queries, rendered, scenario, type Refusal } from "./scenario";

const fetch: RequestInit = { credentials: "include" };

export function run(_baseUrl: string, world: string) {
  return scenario({
    session: async () => (await queries.fetchQuery(getGetSessionQueryOptions({ fetch }))).data,
    refresh: async () => (await rendered(() => useRefreshSession({ fetch })).mutateAsync()).data,
    create: async (id, data) => (await rendered(() => useCreateEvent({ fetch })).mutateAsync({ id, data })).data,
    list: async (id, credentials = "include") =>
      (await queries.fetchQuery(getListEventsQueryOptions(id, { limit: 10 }, { fetch: { credentials } }))).data,
    join: async (id) => (await rendered(() => useJoinEvent({ fetch })).mutateAsync({ id })).data,
    leave: async (id) => (await rendered(() => useLeaveEvent({ fetch })).mutateAsync({ id })).data,
  }, world, (error) => (error as ListEventsQueryError).info as Refusal);
}
