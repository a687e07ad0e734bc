import { listEvents, serverClient } from "worldevents-client";

export async function load({ locals }: { locals: { cookie?: string } }) {
  const client = serverClient({ baseUrl: process.env.SERVICE ?? "", cookie: locals.cookie });
  const { data } = await listEvents({ client, path: { id: "plaza" } });
  return { names: data?.events.map(({ name }) => name) };
}
