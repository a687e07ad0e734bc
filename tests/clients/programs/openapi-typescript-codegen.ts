import { ApiError, EventsService, OpenAPI } from "../generated/openapi-typescript-codegen";
import { watch } from "./watch";

/** Follows a list. The client hands out no header of a response, so that the ETag comes from fetch. */
export async function run(baseUrl: string, world: string, change: () => Promise<unknown>) {
  Object.assign(OpenAPI, { BASE: baseUrl, WITH_CREDENTIALS: true, ENCODE_PATH: encodeURIComponent });
  const send = globalThis.fetch;
  let headers: Headers | undefined;
  globalThis.fetch = async (...call) => {
    const response = await send(...call);
    headers = response.headers;
    return response;
  };
  await EventsService.createEvent(world, { name: "Rooftop concert", description: "", scheduledAt: new Date(0).toISOString() });
  return watch(async (etag, wait) => {
    const list = await EventsService.listEvents(world, undefined, undefined, undefined, undefined, wait, etag).catch((error: ApiError) => error);
    return list instanceof ApiError ? { status: list.status } : { ...list, status: 200, headers };
  }, change);
}
