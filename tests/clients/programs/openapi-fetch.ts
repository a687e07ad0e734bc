import createClient from "openapi-fetch";
import type { paths } from "../generated/schema";
import { watch } from "./watch";

const refused: string[] = [];

/** Uses every operation, and tells what happened. */
export async function run(baseUrl: string, world: string, change: () => Promise<unknown>) {
  const api = createClient<paths>({ baseUrl, credentials: "include" });

  const session = await api.GET("/api/auth/session");
  if (session.error) {
    switch (session.error.error) {
      case "No token":
      case "Invalid refresh token":
        refused.push(session.error.error);
    }
    throw new Error("not signed in");
  }
  const active: true = session.data.authenticated;

  const event = { name: "Rooftop concert", description: "", scheduledAt: new Date(0).toISOString() };
  const params = { path: { id: world } };
  const blank = await api.POST("/api/event/{id}", { params, body: { ...event, name: " " } });
  if (blank.error?.code === "validation_failed") refused.push(`400 ${Object.keys(blank.error.fields ?? {})}`);

  const created = await api.POST("/api/event/{id}", { params, body: event });
  if (created.error) throw new Error(created.error.error);
  const id = created.response.headers.get("Event-Id") ?? "";

  const outside = await api.GET("/api/event/{id}", { params, credentials: "omit" });
  switch (outside.error?.code) {
    case "token_expired":
      throw new Error("refresh, and call again");
    case "no_token":
    case "invalid_token":
      refused.push(`401 ${outside.error.code}`);
  }

  const unknown = await api.POST("/api/event/join/{id}", { params: { path: { id: "nothing" } } });
  if (unknown.error?.code === "event_not_found") refused.push(`404 ${unknown.error.code}`);

  const joined = await api.POST("/api/event/join/{id}", { params: { path: { id } } });
  const names = async () => {
    const list = await api.GET("/api/event/{id}", { params: { ...params, query: { limit: 10 } } });
    return list.data?.events.map((e) => `${e.name}: ${e.RSVPs.map((rsvp) => rsvp.user.username)}`) ?? [];
  };
  const before = await names();
  const left = await api.DELETE("/api/event/{id}", { params: { path: { id } } });
  const refreshed = await api.GET("/api/auth/refresh");

  return {
    active,
    user: session.response.headers.get("Session-User"),
    refused,
    done: [created.data.success, joined.data?.success, left.data?.success, refreshed.data?.success],
    before,
    after: await names(),
    watched: await watch(async (etag, wait) => {
      const header = { "If-None-Match": etag };
      const { data, response } = await api.GET("/api/event/{id}", { params: { ...params, query: { wait }, header } });
      return { ...data, status: response.status, headers: response.headers };
    }, change),
  };
}
