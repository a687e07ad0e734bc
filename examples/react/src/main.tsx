import '@picocss/pico/css/pico.classless.indigo.min.css'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { connect } from 'worldevents-client'
import App from './App'
import './index.css'

connect({ baseUrl: '' })

createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <QueryClientProvider client={new QueryClient()}>
      <App world="plaza" />
    </QueryClientProvider>
  </StrictMode>,
)
