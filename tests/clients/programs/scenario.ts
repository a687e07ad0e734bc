// What the programs of TanStack Query's tools do, each with its own queries and mutations.
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createElement } from "react";
import { renderToString } from "react-dom/server";

/** The operations as a tool makes them. They reject with a `Refusal`. */
export interface Api {
  session(): Promise<{ authenticated: true }>;
  refresh(): Promise<{ success: true }>;
  create(world: string, event: { name: string; description: string; scheduledAt: string }): Promise<{ success: true }>;
  list(world: string, credentials?: RequestCredentials): Promise<{ events: Event[] }>;
  join(id: string): Promise<{ success: true }>;
  leave(id: string): Promise<{ success: true }>;
}

interface Event {
  id: string;
  name: string;
  RSVPs: { user: { username: string } }[];
}

/** What the errors of the contract have in common. */
export interface Refusal {
  code: string;
  fields?: Record<string, string>;
}

export const queries = new QueryClient({ defaultOptions: { queries: { retry: false, staleTime: 0 } } });

/** What a hook returns in a component. A mutation works on afterwards. */
export function rendered<T>(hook: () => T): T {
  let result: T | undefined;
  const Component = () => {
    result = hook();
    return null;
  };
  renderToString(createElement(QueryClientProvider, { client: queries }, createElement(Component)));
  return result as T;
}

/** Uses every operation, and tells what happened. `refusal` is the contract's error of what a call has rejected with. */
export async function scenario(api: Api, world: string, refusal: (error: unknown) => Refusal) {
  const refused = (call: Promise<unknown>) => call.then(
    () => "not refused",
    (error) => [refusal(error).code, ...Object.keys(refusal(error).fields ?? {})].join(" "),
  );
  const names = async () => (await api.list(world)).events.map((event) => `${event.name}: ${event.RSVPs.map((rsvp) => rsvp.user.username)}`);

  const { authenticated } = await api.session();
  const event = { name: "Rooftop concert", description: "", scheduledAt: "2030-01-02T05:04:05+02:00" };
  const created = await api.create(world, event);
  const [first] = (await api.list(world)).events;
  const id = first?.id ?? "";
  const left = await api.leave(id);
  const before = await names();
  const joined = await api.join(id);
  const refreshed = await api.refresh();
  return {
    authenticated,
    done: [created, left, joined, refreshed].map(({ success }) => success),
    before,
    after: await names(),
    refused: await Promise.all([
      refused(api.create(world, { ...event, name: " " })), refused(api.list(world, "omit")), refused(api.join("nothing")),
    ]),
  };
}
