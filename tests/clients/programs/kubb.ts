import { createEvent, getSession, joinEvent, leaveEvent, listEvents, refreshSession } from "../generated/kubb";
import { config } from "./kubb-client";
import { watch } from "./watch";

const refused: string[] = [];

/** Uses every operation, and tells what happened. */
export async function run(baseUrl: string, world: string, change: () => Promise<unknown>) {
  config.baseURL = baseUrl;

  const session = await getSession();
  if (!session.ok) throw new Error(session.error.error);
  const active: true = session.data.authenticated;

  const event = { name: "Rooftop concert", description: "", scheduledAt: new Date(0).toISOString() };
  const blank = await createEvent(world, { ...event, name: " " });
  if (!blank.ok && blank.error.code === "validation_failed") {
    refused.push(`${blank.status} ${Object.keys(blank.error.fields ?? {})}`);
  }

  const created = await createEvent(world, event);
  if (!created.ok) throw new Error(created.error.error);
  const id = created.headers.get("Event-Id") ?? "";

  const outside = await listEvents(world, undefined, undefined, { credentials: "omit" });
  if (!outside.ok) {
    switch (outside.error.code) {
      case "token_expired":
        throw new Error("refresh, and call again");
      case "no_token":
      case "invalid_token":
        refused.push(`${outside.status} ${outside.error.code}`);
    }
  }

  const unknown = await joinEvent("nothing");
  if (!unknown.ok && unknown.error.code === "event_not_found") refused.push(`${unknown.status} ${unknown.error.code}`);

  const joined = await joinEvent(id);
  const names = async () => {
    const list = await listEvents(world, { limit: 10 });
    if (!list.ok) return [];
    return list.data.events.map((e) => `${e.name}: ${e.RSVPs.map((rsvp) => rsvp.user.username)}`);
  };
  const before = await names();
  const left = await leaveEvent(id);
  const refreshed = await refreshSession();

  return {
    active,
    user: session.headers.get("Session-User"),
    refused,
    done: [created, joined, left, refreshed].map((answer) => answer.ok && answer.data.success),
    before,
    after: await names(),
    watched: await watch(async (etag, wait) => {
      const list = await listEvents(world, { wait }, etag ? { "If-None-Match": etag } : undefined);
      return { ...(list.ok && list.data), status: list.status, headers: list.headers };
    }, change),
  };
}
