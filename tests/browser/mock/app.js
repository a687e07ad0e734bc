// The example page over the service in memory. The tests of the page do to the service what others would do.
import { setupWorker } from "msw/browser";
import { mock } from "worldevents-client/mock";

const service = mock({
  user: "alice",
  events: [{ world: "plaza", id: "concert", name: "Rooftop concert", scheduledAt: "2030-01-02T03:04:05Z", joined: ["bob"] }],
});
await setupWorker(...service.handlers).start({ quiet: true, onUnhandledRequest: "bypass", serviceWorker: { url: "worker.js" } });
window.service = service;

// Firefox sends what outlives the page, as a refresh does, past service workers.
const send = window.fetch;
window.fetch = (input, init) => send(input, { ...init, keepalive: false });
await import("../page/page.js");
