// Hands undefined to the mock wherever it takes what may be absent. It is type-checked, never run.
import { mock, type MockOptions } from "worldevents-client/mock";

declare const text: string | undefined, number: number | undefined, names: string[] | undefined;
const event = { world: "plaza", name: "x", scheduledAt: new Date(), description: text, joined: names, id: text };

mock({ baseUrl: text, user: text, events: [event], now: undefined, sessionsPerUser: number });
const service = mock({ events: undefined } satisfies MockOptions);
service.create(event);
service.fail("getSession", { status: 503, retryAfter: number, times: number });
// @ts-expect-error
service.fail("getSession", { status: 404 });
// @ts-expect-error
service.create({ ...event, name: text });
