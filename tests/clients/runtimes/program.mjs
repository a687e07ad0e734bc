// What a server does for a user, the same whatever runs it.
import { allEvents, CallError, createEvent, eventLists, getSession, joinEvent, leaveEvent, listEvents, listOf, serverClient, sessionOf } from "worldevents-client";

/** Calls the service with the header Cookie of a request, and tells what has come of it. */
export async function run(baseUrl, cookie, world) {
  const client = serverClient({ baseUrl, cookie });
  const path = { id: world };
  const body = { name: "Rooftop concert", description: "", scheduledAt: "2030-01-02T03:04:05Z" };
  const names = ({ events }) => events.map(({ name, RSVPs }) => `${name}: ${RSVPs.map(({ user }) => user.username)}`).join();

  const session = await getSession({ client });
  const created = await createEvent({ client, path, body });
  const id = created.data?.id;
  const left = await leaveEvent({ client, path: { id } });
  const list = await listEvents({ client, path });
  const { etag } = listOf(list);
  const same = await listEvents({ client, path, headers: { "If-None-Match": etag } });
  const lists = [];
  for await (const each of eventLists({ client, path })) {
    lists.push(names(each));
    if (lists.length > 1) break;
    await joinEvent({ client, path: { id } });
  }
  const all = [];
  for await (const event of allEvents({ client, path, query: { limit: 1 } })) all.push(event.name);

  const bad = await createEvent({ client, path, body: { ...body, name: "" } });
  const thrown = await listEvents({ client, path: { id: ".." }, throwOnError: true }).catch((error) => error);
  const signal = AbortSignal.abort(new Error("no longer"));
  const aborted = await listEvents({ client, path, signal }).catch((error) => error);
  const nobody = serverClient({ baseUrl, cookie: null });
  return {
    user: sessionOf(session).username,
    left: left.data?.success,
    list: names(list.data),
    same: same.response.status,
    lists,
    all,
    bad: [bad.error?.code, Object.keys(bad.error?.fields ?? {})],
    thrown: [thrown instanceof CallError, thrown.code],
    aborted: aborted instanceof Error && aborted.message,
    nobody: [(await getSession({ client: nobody })).error?.error, (await listEvents({ client: nobody, path })).error?.code],
  };
}
