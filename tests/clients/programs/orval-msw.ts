import { setupServer } from "msw/node";
import { createEvent, getSession, joinEvent, leaveEvent, listEvents, refreshSession } from "../generated/orval-query/api";
import { getListEventsMockHandler, getWorldeventsMock } from "../generated/orval-query/api.msw";

/** Calls every operation where MSW responds, and returns what they have said. */
export async function run() {
  const server = setupServer(...getWorldeventsMock());
  server.listen({ onUnhandledRequest: "error" });
  try {
    const event = { name: "Rooftop concert", description: "", scheduledAt: "2030-01-02T05:04:05+02:00" };
    const done = await Promise.all([createEvent("plaza", event), joinEvent("1"), leaveEvent("1"), refreshSession()]);
    const session = await getSession();
    const made = await listEvents("plaza");
    server.use(getListEventsMockHandler({ events: [] }));
    const given = await listEvents("100% / ?");
    return {
      authenticated: session.data.authenticated,
      done: done.map(({ data }) => data.success),
      made: made.data,
      given: given.data,
    };
  } finally {
    server.close();
  }
}
