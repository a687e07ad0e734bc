/**
 * The service in memory, for tests and pages without a server: request handlers for MSW 2, and what a test does to the service from
 * outside. It responds as the service does in development; test/contract.test.mjs holds both to the same cases.
 *
 * @packageDocumentation
 */
import { http, type HttpHandler } from "msw";
import type { WorldEvent } from "./api/index.js";
import { toResponse } from "./mock/answer.js";
import { clearCookies, Jar } from "./mock/cookies.js";
import { Events, type NewMockEvent } from "./mock/events.js";
import { ETags, listOf } from "./mock/list.js";
import { type Access, type Failure, type OperationName, Service } from "./mock/service.js";
import { type Issued, Sessions } from "./mock/sessions.js";
import { address } from "./session.js";

export type { Access, Failure, Issued, NewMockEvent, OperationName };

/** What the service begins with, and returns to with `reset`. */
export interface MockOptions {
  /** The service's address, as of `connect`. Without it requests to any origin are answered. */
  baseUrl?: string | undefined;
  /** Who is signed in. */
  user?: string | undefined;
  /** The events that there are. */
  events?: readonly NewMockEvent[] | undefined;
  /** The clock, in milliseconds since 1970; `Date.now` if it is not given. */
  now?: (() => number) | undefined;
  /** How many sessions a user may have, as `SESSIONS_PER_USER` of the service; 1 if it is not given. */
  sessionsPerUser?: number | undefined;
  /** Who may list, create and join in a world, as the system at `WORLD_ACCESS_URL` of the service says; everybody if it is not given. */
  access?: Access | undefined;
}

/** A service in memory. Users come to be when they are first named. */
export interface Mock {
  /** For `setupServer` and `setupWorker`: the six operations, and `POST /sign-out`. */
  handlers: HttpHandler[];
  /** Signs a user in, as the browser that returns from `/sign-in`: its later requests carry both cookies. */
  signIn(username: string): void;
  /** Signs out, as this browser does on a page of the service: its session has ended, and its later requests carry no cookies. */
  signOut(): void;
  /** Begins a session of a user in another browser, and returns its cookies. The browser here keeps those that it has. */
  issue(username: string): Issued;
  /** Ends all sessions of a user, as from another device. */
  revoke(username: string): void;
  /** Has all JWTs expire, as after 15 minutes: the next event operation is 401 `token_expired`. The refresh tokens live on. */
  expireTokens(): void;
  /** Creates an event as somebody else does, and returns its id. */
  create(event: NewMockEvent): string;
  /** Has somebody else join an event. */
  join(event: string, username: string): void;
  /** Has somebody else leave an event. */
  leave(event: string, username: string): void;
  /** Removes an event, as its creator does on the page `/events`. */
  remove(event: string): void;
  /** The events of a world, as `listEvents` has them. */
  list(world: string): WorldEvent[];
  /** Has the next calls of an operation fail. Two calls of `fail` are for as many calls more. */
  fail(operation: OperationName, failure: Failure): void;
  /** Begins anew, as after `mock`. Calls that watch a list are told to come again. */
  reset(): void;
}

/**
 * Makes a service in memory. It throws a `TypeError` for events that the service would not take.
 */
export function mock(options: MockOptions = {}): Mock {
  const { user, now = () => Date.now(), sessionsPerUser = 1, access } = options;
  const baseUrl = options.baseUrl ? address(options.baseUrl) : undefined;
  const etags = new ETags();
  const begin = () => {
    const events = new Events(now);
    const sessions = new Sessions(now, sessionsPerUser);
    const jar = new Jar();
    for (const event of options.events ?? []) events.create(event);
    if (user !== undefined) jar.keep(sessions.begin(user));
    return { events, sessions, jar, service: new Service(events, sessions, etags, now, access) };
  };
  let state = begin();
  const pattern = baseUrl?.replace(/[.*+?^${}()|[\]\\]/g, "\\$&") ?? "https?://[^/]+";
  const paths = new RegExp(`^(?:${pattern})/(?:api/(?:auth|event)(?:/.*)?|sign-out)$`);

  return {
    handlers: [http.all(paths, async ({ request }) => {
      const { jar, service } = state;
      const cookies = jar.of(request);
      const base = baseUrl ?? new URL(request.url).origin;
      const answer = await service.answer(request, base, cookies.header);
      if (cookies.kept) jar.store(answer.cookies ?? []);
      // A Response of its own: that of MSW would have MSW keep the cookies, too, of which it can keep one.
      return toResponse(request, answer);
    })],
    signIn: (username) => state.jar.keep(state.sessions.begin(username, state.jar.refreshTokens())),
    signOut() {
      state.sessions.signOut(state.jar.refreshTokens(), [], false);
      state.jar.store(clearCookies());
    },
    issue: (username) => state.sessions.begin(username),
    revoke: (username) => state.sessions.revokeUser(username),
    expireTokens: () => state.sessions.expireTokens(),
    create: (event) => state.events.create(event),
    join: (event, username) => state.events.join(event, username),
    leave: (event, username) => state.events.leave(event, username),
    remove: (event) => state.events.remove(event),
    list: (world) => listOf(state.events.of(world)).events,
    fail: (operation, failure) => state.service.fail(operation, failure),
    reset() {
      const before = state;
      state = begin();
      before.events.changes.stop();
    },
  };
}
