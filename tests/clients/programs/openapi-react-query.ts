import createFetchClient from "openapi-fetch";
import createClient from "openapi-react-query";
import type { components, paths } from "../generated/schema";
import { queries, rendered, scenario } from "./scenario";

export function run(baseUrl: string, world: string) {
  const api = createClient(createFetchClient<paths>({ baseUrl, credentials: "include" }));
  const path = (id: string) => ({ params: { path: { id } } });
  return scenario({
    session: () => queries.fetchQuery(api.queryOptions("get", "/api/auth/session")),
    // It is a GET, but spends the refresh token: no query, which is repeated as it likes.
    refresh: () => rendered(() => api.useMutation("get", "/api/auth/refresh")).mutateAsync({}),
    create: (id, body) => rendered(() => api.useMutation("post", "/api/event/{id}")).mutateAsync({ ...path(id), body }),
    list: (id, credentials) => queries.fetchQuery(
      api.queryOptions("get", "/api/event/{id}", { params: { path: { id }, query: { limit: 10 } }, credentials })),
    join: (id) => rendered(() => api.useMutation("post", "/api/event/join/{id}")).mutateAsync(path(id)),
    leave: (id) => rendered(() => api.useMutation("delete", "/api/event/{id}")).mutateAsync(path(id)),
  }, world, (error) => error as components["schemas"]["ApiError"]);
}
