// @vitest-environment jsdom
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { fireEvent, render, screen } from '@testing-library/react'
import { setupServer } from 'msw/node'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { connect } from 'worldevents-client'
import { mock } from 'worldevents-client/mock'
import App from './App'

const scheduledAt = '2099-01-02T03:04:05Z'
const event = { world: 'plaza', name: 'Tea', scheduledAt, joined: ['bob'] }
const service = mock({ events: [event] })
const server = setupServer(...service.handlers)
beforeAll(() => server.listen({ onUnhandledRequest: 'error' }))
afterAll(() => server.close())

const click = async (name: string) =>
  fireEvent.click(await screen.findByRole('button', { name }))

test('alice signs in, joins and signs out', async () => {
  connect({ baseUrl: '' })
  service.signIn('alice') // in place of the page /sign-in
  render(
    <QueryClientProvider client={new QueryClient()}>
      <App world="plaza" />
    </QueryClientProvider>,
  )
  await click('Join')
  await screen.findByRole('button', { name: 'Leave' })
  await screen.findByText('bob, alice')
  expect(service.list('plaza')[0].RSVPs).toHaveLength(2)
  await click('Sign out')
  await screen.findByRole('link', { name: /Sign in/ })
})
