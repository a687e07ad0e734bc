import { useState } from 'react'
import { signInUrl, signOut } from 'worldevents-client'
import { useSession } from 'worldevents-client/react'
import { Past, Upcoming } from './Events'
import NewEvent from './NewEvent'

export default function App({ world }: { world: string }) {
  const { data: session, error, failureReason } = useSession()
  const [fault, setFault] = useState<Error>()

  if (!session)
    return (
      <main>
        <h1>What’s on at the {world}</h1>
        {session === null ? (
          <a href={signInUrl('/')}>Sign in to see who is going</a>
        ) : (
          <p role="status" aria-busy={!error}>
            {(error ?? failureReason)?.message ?? 'One moment…'}
          </p>
        )}
      </main>
    )
  return (
    <>
      <header>
        <h1>What’s on at the {world}</h1>
        <bdi>{session.username}</bdi>
        <button className="quiet" onClick={() => signOut().catch(setFault)}>
          Sign out
        </button>
      </header>
      {fault && <p role="alert">{fault.message}</p>}
      <main>
        <NewEvent world={world} />
        <Past world={world} />
        <Upcoming world={world} />
      </main>
    </>
  )
}
