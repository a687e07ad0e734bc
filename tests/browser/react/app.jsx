// A world's events in React: the list live, creating with a message for each field, joining and leaving that show at once,
// signing in and out. What is between the client and the markup is marked as glue: react.test.mjs counts it.
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query"; // glue
import { connect, signInUrl, signOut } from "worldevents-client"; // glue
import { useCreateEvent, useEventPages, useEvents, useJoin, useLeave, useSession } from "worldevents-client/react"; // glue

const query = new URLSearchParams(location.search);
const world = query.get("world");
connect({ baseUrl: "" }); // glue
const queries = new QueryClient(); // glue

/** An app that never asks who is signed in. */
function Alone() {
  const { data, live } = useEvents(world); // glue
  return <>
    <p role="status">{live.status}</p>
    {data?.events.map((event) => <article key={event.id} id={event.id}><h2>{event.name}</h2></article>)}
  </>;
}

function App() {
  const { data: session, failureReason } = useSession(); // glue
  if (session === undefined) return <p>{failureReason?.message ?? "…"}</p>;
  if (!session) return <a href={signInUrl(location.pathname + location.search)}>Sign in</a>;
  return <>
    <p>Signed in as {session.username} <button onClick={() => signOut()}>Sign out</button></p>
    {query.has("pages") ? <Pages user={session.username} /> : <Events user={session.username} />}
    <Create />
  </>;
}

function Events({ user }) {
  const { data, live } = useEvents(world); // glue
  if (!data) return <p>{live.error?.message ?? live.status}</p>;
  return <>
    <p role="status">{live.status !== "live" && `${live.status} since ${live.since.toLocaleTimeString()}`}</p>
    <List events={data.events} user={user} />
  </>;
}

function Pages({ user }) {
  const { data = [], hasNextPage, fetchNextPage } = useEventPages(world, { limit: 2 }); // glue
  return <>
    <List events={data} user={user} />
    {hasNextPage && <button onClick={() => fetchNextPage()}>More</button>}
  </>;
}

function List({ events, user }) {
  const join = useJoin(world), leave = useLeave(world); // glue
  return <>
    <p role="alert">{(join.error ?? leave.error)?.message}</p>
    {events.map((event) => {
      const names = event.RSVPs.map((rsvp) => rsvp.user.username);
      const [what, change] = names.includes(user) ? ["Leave", leave] : ["Join", join];
      return <article key={event.id} id={event.id}>
        <h2>{event.name}</h2> <span>{names.join(", ")}</span>
        <button onClick={() => change.mutate(event.id)}>{what}</button>
      </article>;
    })}
  </>;
}

function Create() {
  const { mutate, error, isSuccess } = useCreateEvent(world); // glue
  const submit = (form) => mutate({ name: form.get("name"), description: "", scheduledAt: "2030-01-02T03:04:05Z" }); // glue
  return <form action={submit}>
    <input name="name" aria-label="Name" />
    <button>Create</button>
    <output>{error?.fields?.name ?? error?.message ?? (isSuccess ? "Created" : "")}</output>
  </form>;
}

createRoot(document.getElementById("app")).render(
  <StrictMode><QueryClientProvider client={queries}>{query.has("alone") ? <Alone /> : <App />}</QueryClientProvider></StrictMode>,
);
