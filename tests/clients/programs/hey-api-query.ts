import { useMutation } from "@tanstack/react-query";
import type { ApiError } from "../generated/hey-api";
import {
  createEventMutation, getSessionOptions, joinEventMutation, leaveEventMutation, listEventsOptions, refreshSessionMutation,
} from "../generated/hey-api/@tanstack/react-query.gen";
import { client } from "../generated/hey-api/client.gen";
import { queries, rendered, scenario } from "./scenario";

export function run(baseUrl: string, world: string) {
  client.setConfig({ baseUrl, credentials: "include" });
  return scenario({
    session: () => queries.fetchQuery(getSessionOptions()),
    refresh: () => rendered(() => useMutation(refreshSessionMutation())).mutateAsync({}),
    create: (id, body) => rendered(() => useMutation(createEventMutation())).mutateAsync({ path: { id }, body }),
    list: (id, credentials) => queries.fetchQuery(listEventsOptions({ path: { id }, query: { limit: 10 }, credentials })),
    join: (id) => rendered(() => useMutation(joinEventMutation())).mutateAsync({ path: { id } }),
    leave: (id) => rendered(() => useMutation(leaveEventMutation())).mutateAsync({ path: { id } }),
  }, world, (error) => error as ApiError);
}
