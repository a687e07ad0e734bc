/** The operations, each with what a request meets before it: the rules for browsers, the path, requireAuth and the contract. */
import {
  type Answer, crossOrigin, forbidden, internal, invalid, noMethod, notFound, overloaded, rateLimited, refusal, success, tooManyHeaders, unauthorized,
} from "./answer.js";
import { clearCookies, setCookies, valuesOf } from "./cookies.js";
import type { Events } from "./events.js";
import { escapePath, type ETags, isUnchanged, mayWait, pageOf, tagsOf } from "./list.js";
import { drain, eventFields, keyFields, readBody, readQuery, worldFields } from "./rules.js";
import { type Claims, isRefreshToken, type Issued, type Sessions } from "./sessions.js";

/** How calls fail: that they are too many, or something unforeseen. */
export interface Failure {
  /** 429 `rate_limited`, 500 `internal` or 503 `overloaded`. None of them does anything. */
  status: 429 | 500 | 503;
  /** The seconds of `Retry-After`, of 429 and 503; 1 if it is not given. */
  retryAfter?: number | undefined;
  /** How many calls fail; 1 if it is not given. The client repeats a 429 and a 503 twice by itself. */
  times?: number | undefined;
}

/** The contract's operationIds. */
export type OperationName = "getSession" | "refreshSession" | "createEvent" | "listEvents" | "joinEvent" | "leaveEvent";

/** Whether a user may do something in a world. */
export type Access = (user: string, world: string, action: "list" | "create" | "join") => boolean;

/** A request on its way to an operation. */
interface Call {
  request: Request;
  /** The public address, without a slash at its end. */
  base: string;
  /** The header `Cookie`. */
  cookies: string;
  /** The id in the path; undefined if it is not UTF-8. */
  id: string | undefined;
}

type Operation = (call: Call) => Answer | Promise<Answer>;

/** The operations of a path by their methods. */
type Route = Record<string, OperationName | "signOut">;

export class Service {
  /** The calls that are to fail. */
  readonly #failures = new Map<string, Failure[]>();

  constructor(readonly events: Events, readonly sessions: Sessions, readonly etags: ETags, readonly now: () => number, readonly access?: Access) {}

  fail(operation: OperationName, failure: Failure): void {
    const failures = Array.from({ length: failure.times ?? 1 }, () => failure);
    this.#failures.set(operation, [...this.#failures.get(operation) ?? [], ...failures]);
  }

  /** The response to a request with these cookies. */
  async answer(request: Request, base: string, cookies: string): Promise<Answer> {
    try {
      return await this.#answer(request, base, cookies);
    } catch (problem) {
      return refusal(problem);
    }
  }

  async #answer(request: Request, base: string, cookies: string): Promise<Answer> {
    const path = new URL(request.url).pathname.slice(new URL(base).pathname.replace(/\/$/, "").length);
    if (/%(?![0-9A-Fa-f]{2})/.test(path)) { // refused before the service sees it
      return { status: 400, headers: { "Content-Type": "text/plain; charset=utf-8" }, body: "400 Bad Request" };
    }
    if ([...request.headers].length > 100) throw tooManyHeaders();
    refuseCrossOrigin(request, base, path);
    const { route, id } = routeOf(path);
    const allow = ["OPTIONS", ...Object.keys(route)].join(", ");
    const name = Object.hasOwn(route, request.method) ? route[request.method] : undefined;
    if (!name && request.method === "OPTIONS") return { status: 204, headers: { Allow: allow } };
    if (!name) throw noMethod(allow);
    const failure = this.#failures.get(name)?.shift();
    if (failure) {
      const { status, retryAfter = 1 } = failure;
      const problem = status === 500 ? internal(name) : status === 429 ? rateLimited() : overloaded();
      return { ...refusal(problem), headers: status === 500 ? {} : { "Retry-After": `${retryAfter}` } };
    }
    return this.#operations[name]({ request, base, cookies, id });
  }

  readonly #operations: Record<OperationName | "signOut", Operation> = {
    getSession: ({ cookies }) => {
      const [token, another] = valuesOf(cookies, "token");
      const refused = (error: string): Answer => ({ status: 400, body: { authenticated: false, error } });
      if (!token && another === undefined) return refused("No token");
      const claims = another === undefined ? this.sessions.verify(token!) : undefined;
      if (!claims) return refused("Invalid token");
      const { username } = claims.session;
      const body = { authenticated: true };
      if (!claims.expired) return { status: 200, headers: sessionHeaders({ username, expires: new Date(claims.expires) }), body };
      const refreshed = this.#refresh(cookies, claims);
      return typeof refreshed === "string" ? refused(refreshed) : { ...refreshed, body };
    },

    refreshSession: ({ cookies }) => {
      const refreshed = this.#refresh(cookies);
      return typeof refreshed === "string" ? { status: 400, body: { error: refreshed } } : refreshed;
    },

    createEvent: async (call) => {
      const { session } = this.#requireAuth(call);
      const key = call.request.headers.get("Idempotency-Key");
      const body = await readBody(call.request);
      const fields = { ...worldFields(call.id), ...keyFields(key), ...eventFields(body) };
      if (Object.keys(fields).length > 0) throw invalid(fields);
      this.#requireActive(session);
      this.#enter(session, call.id!, "create");
      const { name, description, scheduledAt } = body as { name: string; description: string; scheduledAt: string };
      const event = { world: call.id!, name, description, scheduledAt, joined: [session.username] };
      if (key === null) return success({ "Event-Id": this.events.create(event) });
      return success({ "Event-Id": this.events.createOnce(event, session.username, key), "Idempotency-Key": "accepted" });
    },

    listEvents: async (call) => {
      const { session, expires } = this.#requireAuth(call);
      const fields = worldFields(call.id);
      const query = readQuery(new URL(call.request.url).search, fields);
      if (Object.keys(fields).length > 0) throw invalid(fields);
      const world = call.id!;
      const tags = tagsOf(call.request.headers);
      const until = Math.min(Number(query.wait ?? 0) * 1000, expires - this.now()) + this.now();
      for (let over = query.wait === undefined || !mayWait(tags); ;) {
        this.#enter(session, world, "list");
        const { json, link, etag } = pageOf(world, this.events.of(world), query, call.base, this.etags);
        this.#requireActive(session);
        const headers: Record<string, string> = {
          ETag: etag, "Cache-Control": "private, no-cache", Vary: "Cookie, Origin, Accept-Encoding", ...(link && { Link: link }),
        };
        if (!isUnchanged(tags, etag)) return { status: 200, headers, body: json };
        if (over) return { status: 304, headers };
        const why = await this.events.changes.wait(world, Math.max(until - this.now(), 0), call.request.signal);
        if (why === "stopped" || why === "gone") return { status: 304, headers: { ...headers, "Retry-After": "1" } };
        over = why === "elapsed";
      }
    },

    joinEvent: (call) => this.#write(call, (id, session) => {
      this.#enter(session, this.events.find(id).world, "join");
      this.events.join(id, session.username);
    }),
    leaveEvent: (call) => this.#write(call, (id, { username }) => this.events.leave(id, username)),

    signOut: async ({ request, cookies }) => {
      const form = new URLSearchParams(await request.text());
      const everywhere = form.get("everywhere") ?? new URL(request.url).searchParams.get("everywhere");
      this.sessions.signOut(valuesOf(cookies, "refreshToken").filter(isRefreshToken), valuesOf(cookies, "token"), everywhere === "true");
      return { status: 204, headers: { "Cache-Control": "no-store" }, cookies: clearCookies() };
    },
  };

  /** Spends the refresh token that was sent, which must be that of the claims if there are any, or says why it is refused. */
  #refresh(cookies: string, claims?: Claims): Answer | string {
    const [token, another] = valuesOf(cookies, "refreshToken");
    if (!token && another === undefined) return "No refresh token";
    const valid = another === undefined && isRefreshToken(token!);
    const issued = valid ? this.sessions.refresh(token!, claims?.session) : undefined;
    return issued ? { ...success(sessionHeaders(issued)), cookies: setCookies(issued) } : "Invalid refresh token";
  }

  async #write(call: Call, act: (id: string, session: Claims["session"]) => void): Promise<Answer> {
    const { session } = this.#requireAuth(call);
    await drain(call.request);
    this.#requireActive(session);
    act(call.id ?? "", session);
    return success();
  }

  /** Lets a request pass that carries a valid JWT. It never refreshes. */
  #requireAuth({ cookies }: Call): Claims {
    const [token, another] = valuesOf(cookies, "token");
    if (!token && another === undefined) throw unauthorized("no_token");
    const claims = another === undefined ? this.sessions.verify(token!) : undefined;
    if (!claims || claims.expired) throw unauthorized(claims ? "token_expired" : "invalid_token");
    return claims;
  }

  /** Lets those pass who may do this in a world. */
  #enter(session: Claims["session"], world: string, action: Parameters<Access>[2]): void {
    if (!this.access) return;
    this.#requireActive(session);
    if (!this.access(session.username, world, action)) throw forbidden();
  }

  #requireActive({ revoked }: Claims["session"]): void {
    if (revoked) throw unauthorized("invalid_token");
  }
}

const sessionHeaders = ({ username, expires }: Pick<Issued, "username" | "expires">) =>
  ({ "Session-User": escapePath(username), "Session-Expires": expires.toISOString() });

/** Finds the operations of a path, each segment of which is decoded once. */
function routeOf(path: string): { route: Route; id: string | undefined } {
  const [, first, second, ...rest] = path.split("/").map(decode);
  const id = rest.at(-1);
  if (id === "") throw notFound();
  if (first === "sign-out" && second === undefined) return { route: { POST: "signOut" }, id };
  if (second === "auth" && rest.length === 1 && id === "session") return { route: { GET: "getSession" }, id };
  if (second === "auth" && rest.length === 1 && id === "refresh") return { route: { GET: "refreshSession" }, id };
  if (second === "event" && rest.length === 1) return { route: { DELETE: "leaveEvent", GET: "listEvents", POST: "createEvent" }, id };
  if (second === "event" && rest.length === 2 && rest[0] === "join") return { route: { POST: "joinEvent" }, id };
  throw notFound();
}

function decode(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}

/**
 * Refuses what a page of another origin sends, by what its browser says of it (Fetch Metadata, or Origin). The two auth operations are
 * held to it although they are GETs, and refuse a prefetch: they change state. So is a list that is not to be shown in a window.
 */
function refuseCrossOrigin({ method, headers }: Request, base: string, path: string): void {
  const isAuth = path.startsWith("/api/auth/") && method === "GET";
  if (isAuth && headers.get("Sec-Purpose")) throw crossOrigin();
  const site = headers.get("Sec-Fetch-Site") ?? "";
  const isElsewhere = (site === "cross-site" || site === "same-site") && headers.get("Sec-Fetch-Mode") !== "navigate";
  const isEmbedded = isElsewhere && path.startsWith("/api/event/") && method === "GET";
  if (!isAuth && !isEmbedded && ["GET", "HEAD", "OPTIONS"].includes(method)) return;
  const origin = headers.get("Origin") ?? "";
  if (site === "same-origin" || site === "none" || origin === new URL(base).origin || (!site && !origin)) return;
  throw crossOrigin();
}
