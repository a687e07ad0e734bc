import { createEvent, getSession, joinEvent, leaveEvent, listEvents, refreshSession } from "../generated/orval/api";
import { watch } from "./watch";

const refused: string[] = [];
const cookies: RequestInit = { credentials: "include" };

/** Uses every operation, and tells what happened. */
export async function run(_baseUrl: string, world: string, change: () => Promise<unknown>) {
  const session = await getSession(cookies);
  if (session.status !== 200) throw new Error(session.data.error);
  const active: true = session.data.authenticated;

  const event = { name: "Rooftop concert", description: "", scheduledAt: new Date(0).toISOString() };
  const blank = await createEvent(world, { ...event, name: " " }, cookies);
  if (blank.status === 400 && blank.data.code === "validation_failed") {
    refused.push(`${blank.status} ${Object.keys(blank.data.fields ?? {})}`);
  }

  const created = await createEvent(world, event, cookies);
  if (created.status !== 200) throw new Error(created.data.error);
  const id = created.headers.get("Event-Id") ?? "";

  const outside = await listEvents(world, undefined, { credentials: "omit" });
  if (outside.status === 401) {
    switch (outside.data.code) {
      case "token_expired":
        throw new Error("refresh, and call again");
      case "no_token":
      case "invalid_token":
        refused.push(`${outside.status} ${outside.data.code}`);
    }
  }

  const unknown = await joinEvent("nothing", cookies);
  if (unknown.status === 404) refused.push(`${unknown.status} ${unknown.data.code}`);

  const joined = await joinEvent(id, cookies);
  const names = async () => {
    const list = await listEvents(world, { limit: 10 }, cookies);
    if (list.status !== 200) return [];
    return list.data.events.map((e) => `${e.name}: ${e.RSVPs.map((rsvp) => rsvp.user.username)}`);
  };
  const before = await names();
  const left = await leaveEvent(id, cookies);
  const refreshed = await refreshSession(cookies);

  return {
    active,
    user: session.headers.get("Session-User"),
    refused,
    done: [created, joined, left, refreshed].map((answer) => answer.status === 200 && answer.data.success),
    before,
    after: await names(),
    watched: await watch(async (etag, wait) => {
      const list = await listEvents(world, { wait }, { ...cookies, headers: etag ? { "If-None-Match": etag } : {} });
      return { ...(list.status === 200 && list.data), status: list.status, headers: list.headers };
    }, change),
  };
}
