import { cookies } from "next/headers";
import { getSession, listEvents, listOf, serverClient, sessionOf } from "worldevents-client";
import { Events } from "./events";

const baseUrl = process.env.SERVICE ?? "http://localhost:8080";

export default async function Page() {
  const client = serverClient({ baseUrl, cookie: (await cookies()).toString() });
  const [session, list] = await Promise.all([getSession({ client }), listEvents({ client, path: { id: "plaza" } })]);
  // An expired JWT: no data, and the browser asks for both, which refreshes.
  const known = session.data && list.data ? { session: sessionOf(session), list: listOf(list) } : undefined;
  return <Events world="plaza" known={known} />;
}
