import { createEvent, getSession, joinEvent, leaveEvent, listEvents, refreshSession } from "../generated/hey-api";
import { client } from "../generated/hey-api/client.gen";
import { watch } from "./watch";

const refused: string[] = [];

/** Uses every operation, and tells what happened. */
export async function run(baseUrl: string, world: string, change: () => Promise<unknown>) {
  client.setConfig({ baseUrl, credentials: "include" });

  const session = await getSession();
  if (session.error) throw new Error("error" in session.error ? session.error.error : "");
  const active: true = session.data.authenticated;

  const body = { name: "Rooftop concert", description: "", scheduledAt: new Date(0).toISOString() };
  const path = { id: world };
  const blank = await createEvent({ path, body: { ...body, name: " " } });
  if (blank.error?.code === "validation_failed") refused.push(`400 ${Object.keys(blank.error.fields ?? {})}`);

  const created = await createEvent({ path, body });
  if (created.error) throw new Error(created.error.error);
  const id = created.response?.headers.get("Event-Id") ?? "";

  const outside = await listEvents({ path, credentials: "omit" });
  switch (outside.error?.code) {
    case "token_expired":
      throw new Error("refresh, and call again");
    case "no_token":
    case "invalid_token":
      refused.push(`401 ${outside.error.code}`);
  }

  const unknown = await joinEvent({ path: { id: "nothing" } });
  if (unknown.error?.code === "event_not_found") refused.push(`404 ${unknown.error.code}`);

  const joined = await joinEvent({ path: { id } });
  const names = async () => {
    const list = await listEvents({ path, query: { limit: 10 } });
    return list.data?.events.map((e) => `${e.name}: ${e.RSVPs.map((rsvp) => rsvp.user.username)}`) ?? [];
  };
  const before = await names();
  const left = await leaveEvent({ path: { id } });
  const refreshed = await refreshSession();

  return {
    active,
    user: session.response?.headers.get("Session-User"),
    refused,
    done: [created.data.success, joined.data?.success, left.data?.success, refreshed.data?.success],
    before,
    after: await names(),
    watched: await watch(async (etag, wait) => {
      const { data, response } = await listEvents({ path, query: { wait }, headers: { "If-None-Match": etag } });
      return { ...data, status: response?.status ?? 0, headers: response?.headers };
    }, change),
  };
}
