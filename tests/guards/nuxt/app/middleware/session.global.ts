import { appendResponseHeader } from "h3";
import { connect, getSession, guardRequest, reasonOf, type Session, sessionOf, signInUrl } from "worldevents-client";

if (import.meta.client) connect({ baseUrl: "" });

export default defineNuxtRouteMiddleware(async (to) => {
  const session = useState<Session | null | undefined>("session");
  const event = useRequestEvent();
  if (event) {
    const guarded = await guardRequest(event, { baseUrl: process.env.SERVICE ?? "http://localhost:8080" });
    for (const [name, value] of guarded.headers) appendResponseHeader(event, name, value);
    event.node.req.headers.cookie = guarded.cookie; // which useRequestHeaders has for serverClient
    session.value = guarded.session;
    if (session.value === undefined) {
      appendResponseHeader(event, "Refresh", "1");
      throw createError({ status: 503, statusText: "One moment" });
    }
  } else if (!useNuxtApp().isHydrating) {
    const result = await getSession().catch(() => undefined); // The service is away: go on with what is known.
    if (result?.data) session.value = sessionOf(result);
    else if (result && reasonOf(result)) session.value = null;
  }
  if (session.value === null) return navigateTo(signInUrl(to.fullPath), { external: true });
});
