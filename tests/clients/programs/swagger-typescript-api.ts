import { Api } from "../generated/swagger-typescript-api";
import { watch } from "./watch";

const refused: string[] = [];

/** Uses every operation, and tells what happened. */
export async function run(baseUrl: string, world: string, change: () => Promise<unknown>) {
  const { api } = new Api({ baseUrl, baseApiParams: { credentials: "include" } });

  const session = await api.getSession();
  if (!session.ok) throw new Error(session.error.error);
  const active: true = session.data.authenticated;

  const event = { name: "Rooftop concert", description: "", scheduledAt: new Date(0).toISOString() };
  const blank = await api.createEvent(world, { ...event, name: " " });
  if (!blank.ok && blank.error.code === "validation_failed") {
    refused.push(`${blank.status} ${Object.keys(blank.error.fields ?? {})}`);
  }

  const created = await api.createEvent(world, event);
  if (!created.ok) throw new Error(created.error.error);
  const id = created.headers.get("Event-Id") ?? "";

  const outside = await api.listEvents(world, undefined, { credentials: "omit" });
  if (!outside.ok && outside.error) {
    switch (outside.error.code) {
      case "token_expired":
        throw new Error("refresh, and call again");
      case "no_token":
      case "invalid_token":
        refused.push(`${outside.status} ${outside.error.code}`);
    }
  }

  const unknown = await api.joinEvent("nothing");
  if (!unknown.ok && unknown.error.code === "event_not_found") refused.push(`${unknown.status} ${unknown.error.code}`);

  const joined = await api.joinEvent(id);
  const names = async () => {
    const list = await api.listEvents(world, { limit: 10 });
    return list.data.events.map((e) => `${e.name}: ${e.RSVPs.map((rsvp) => rsvp.user.username)}`);
  };
  const before = await names();
  const left = await api.leaveEvent(id);
  const refreshed = await api.refreshSession();

  return {
    active,
    user: session.headers.get("Session-User"),
    refused,
    done: [created, joined, left, refreshed].map((answer) => answer.data.success),
    before,
    after: await names(),
    watched: await watch(async (etag, wait) => {
      const list = await api.listEvents(world, { wait }, { headers: etag ? { "If-None-Match": etag } : {} });
      return { ...list.data, status: list.status, headers: list.headers };
    }, change),
  };
}
