// What tests/guards/next/app/page.tsx does, in plain Node: the session and the list where the server gets them, else neither.
import { renderToString } from "react-dom/server";
import { getSession, listEvents, listOf, serverClient, sessionOf } from "worldevents-client";
import { Events } from "./events";

export async function render(baseUrl, cookie) {
  const client = serverClient({ baseUrl, cookie });
  const [session, list] = await Promise.all([getSession({ client }), listEvents({ client, path: { id: "plaza" } })]);
  const known = session.data && list.data ? { session: sessionOf(session), list: listOf(list) } : undefined;
  const json = JSON.stringify(known ?? null).replaceAll("<", "\\u003c");
  return `<!doctype html><html lang="en"><title>Events</title><link rel="icon" href="data:,">
<div id="app">${renderToString(<Events world="plaza" known={known} />)}</div>
<script type="application/json" id="known">${json}</script><script type="module" src="/ssr/browser.js"></script>`;
}
