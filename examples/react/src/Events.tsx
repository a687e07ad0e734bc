import { hasJoined, past, upcoming, type WorldEvent } from 'worldevents-client'
import * as hooks from 'worldevents-client/react'

const when = new Intl.DateTimeFormat(undefined, {
  dateStyle: 'full',
  timeStyle: 'short', // in the reader's zone
})

export function Upcoming({ world }: { world: string }) {
  const { data, live } = hooks.useEvents(world, upcoming())
  if (live.error?.code === 'forbidden')
    return (
      <p role="alert">This world is private: ask its owner to let you in.</p>
    )
  return (
    <>
      <p role="status">
        <b className={live.status}>{live.status}</b> since{' '}
        {live.since.toLocaleTimeString()} {live.error?.message}
      </p>
      {data?.events.length === 0 && <p>Nothing is planned.</p>}
      {data?.events.map((event) => (
        <Card key={event.id} event={event} world={world} />
      ))}
    </>
  )
}

export function Past({ world }: { world: string }) {
  const pages = hooks.useEventPages(world, past())
  return (
    <details>
      <summary>Past events</summary>
      {pages.error && <p role="alert">{pages.error.message}</p>}
      {pages.data?.map((event) => (
        <Card key={event.id} event={event} world={world} over />
      ))}
      {pages.hasNextPage && (
        <button
          aria-busy={pages.isFetching}
          onClick={() => pages.fetchNextPage()}
        >
          Load more
        </button>
      )}
    </details>
  )
}

type CardProps = { event: WorldEvent; world: string; over?: boolean }

function Card({ event, world, over }: CardProps) {
  const { data: session } = hooks.useSession()
  const [join, leave] = [hooks.useJoin(world), hooks.useLeave(world)]
  const joined = hasJoined(event, session)
  const change = joined ? leave : join
  const names = event.RSVPs.map(({ user }) => user.username)
  return (
    <article>
      <time dateTime={event.scheduledAt}>
        {when.format(new Date(event.scheduledAt))}
      </time>
      <h2 dir="auto">{event.name}</h2>
      <p dir="auto">{event.description}</p>
      {change.error && <p role="alert">{change.error.message}</p>}
      <footer>
        <b>{names.length} going</b>
        <small dir="auto">{names.join(', ')}</small>
        <button
          hidden={over}
          className={joined ? 'quiet' : ''}
          onClick={() => change.mutate(event.id)}
        >
          {joined ? 'Leave' : 'Join'}
        </button>
      </footer>
    </article>
  )
}
