import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'

// The service is on the page's own origin: no CORS, and first-party cookies.
const service = 'http://localhost:8080'
const paths = ['/api', '/events', '/sessions', '/sign-in', '/sign-out']
const proxy = Object.fromEntries(paths.map((path) => [path, service]))

export default defineConfig({
  plugins: [react()],
  server: { proxy },
  preview: { proxy },
})
