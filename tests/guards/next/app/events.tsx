"use client";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { useState } from "react";
import { connect, type Session, signInUrl, type TaggedList } from "worldevents-client";
import { eventsOptions, sessionOptions, useEvents, useJoin, useSession } from "worldevents-client/react";

connect({ baseUrl: "" });

/** What the server knows is there at once, and not asked for again; what it does not the browser asks for. */
export function Events({ world, known }: { world: string; known?: { session: Session; list: TaggedList } }) {
  const [queries] = useState(() => {
    const queries = new QueryClient();
    if (known) {
      queries.setQueryData(sessionOptions().queryKey, known.session);
      queries.setQueryData(eventsOptions(world).queryKey, known.list);
    }
    return queries;
  });
  return <QueryClientProvider client={queries}><List world={world} /></QueryClientProvider>;
}

function List({ world }: { world: string }) {
  const { data: session } = useSession();
  const { data, live } = useEvents(world);
  const join = useJoin(world);
  if (session === null) return <a href={signInUrl("/")}>Sign in</a>;
  if (!session || !data) return <p>{live.error?.message ?? live.status}</p>;
  return <main>
    <p>Signed in as {session.username}</p>
    {data.events.map((event) => (
      <button key={event.id} onClick={() => join.mutate(event.id)}>
        {event.name}: {event.RSVPs.map(({ user }) => user.username).join(", ")}
      </button>
    ))}
  </main>;
}
