import { type Handle, redirect } from "@sveltejs/kit";
import { guardRequest, signInUrl } from "worldevents-client";

const baseUrl = process.env.SERVICE ?? "http://localhost:8080";

export const handle: Handle = async ({ event, resolve }) => {
  const { session, cookie, headers } = await guardRequest(event.request, { baseUrl });
  if (session === null) redirect(303, signInUrl(event.url.pathname + event.url.search));
  if (session) Object.assign(event.locals, { session, cookie });
  const response = session ? await resolve(event)
    : new Response("One moment…", { status: 503, headers: { "Retry-After": "1", Refresh: "1" } });
  for (const [name, value] of headers) response.headers.append(name, value);
  return response;
};
