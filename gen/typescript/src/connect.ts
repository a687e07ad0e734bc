/** Connects the generated operations to a service: from a browser, and from a server on a user's behalf. */
import { client as defaultClient } from "./api/client.gen.js";
import { createClient as createGenerated } from "./api/client/index.js";
import type { Client } from "./api/client/index.js";
import { getSession, joinEvent, leaveEvent, listEvents, refreshSession } from "./api/sdk.gen.js";
import { refuseUnreachableId, typeErrors, validateSuccess } from "./errors.js";
import { createEvent } from "./events.js";
import { address, type Connection, genuine, keepSession } from "./session.js";

/** The six operations, which reject with `CallError` if ThrowOnError: then `data` is always there. */
export interface Operations<ThrowOnError extends boolean> {
  getSession: typeof getSession<ThrowOnError>;
  refreshSession: typeof refreshSession<ThrowOnError>;
  listEvents: typeof listEvents<ThrowOnError>;
  createEvent: typeof createEvent<ThrowOnError>;
  joinEvent: typeof joinEvent<ThrowOnError>;
  leaveEvent: typeof leaveEvent<ThrowOnError>;
}

/** Whether calls that fail reject with `CallError` instead of resolving to `{ error }`. The default is false. */
export interface Throwing<ThrowOnError extends boolean> {
  throwOnError?: ThrowOnError | undefined;
}

/**
 * Makes the operations of this package call `baseUrl` with the session's cookies and keep the session alive. Call it
 * once, before the first operation.
 *
 * An operation then resolves to `{ data }` or to an `{ error }` of the contract. Whatever else happens (no network, an
 * aborted call, a proxy's error page) rejects its promise, and under `throwOnError` every error does.
 *
 * Returns the same operations with the types that `throwOnError` gives them.
 */
export function connect<ThrowOnError extends boolean = false>(
  connection: Connection & Throwing<ThrowOnError>,
): Operations<ThrowOnError> {
  configure(defaultClient, connection, keepSession(connection));
  // What the types say follows from the configuration, which the compiler does not see.
  return { getSession, refreshSession, listEvents, createEvent, joinEvent, leaveEvent } as Operations<ThrowOnError>;
}

/** A client beside the package's own, for a second service: hand it to an operation as `client`. */
export function createClient(connection: Connection & Throwing<boolean>): Client {
  return configure(createGenerated(), connection, keepSession(connection));
}

/** Whom a server calls for. */
export interface ServerConnection extends Throwing<boolean> {
  /** The service's address as the server reaches it. */
  baseUrl: string;
  /** The header `Cookie` of the request that the server answers. */
  cookie: string | null | undefined;
  /** Used in place of the global `fetch`. */
  fetch?: typeof fetch | undefined;
}

/**
 * A client for one request that a server answers, such as rendering a page: hand it to an operation as `client`. It sends
 * the user's `token` and nothing else, shares nothing with other requests, and never refreshes. The refresh token stays
 * with the browser: cookies that a server received would have to reach it, and of several refreshes at once one wins.
 * On 401 `token_expired`, or 400 of `getSession`, render a page without the data and let the browser call.
 */
export function serverClient(connection: ServerConnection): Client {
  const { baseUrl, cookie, fetch: given = (...call) => fetch(...call) } = connection;
  const send = genuine(address(baseUrl), given);
  const token = (cookie ?? "").split(";").map((pair) => pair.trim()).filter((pair) => pair.startsWith("token=")).join("; ");
  return configure(createGenerated(), connection, (input, init) => {
    const request = new Request(input, { cache: "no-store", ...init });
    request.headers.delete("Cookie");
    if (token) request.headers.set("Cookie", token);
    return send(request);
  });
}

const configured = new WeakSet<Client>();

function configure(client: Client, { baseUrl, throwOnError = false }: Connection & Throwing<boolean>, send: typeof fetch): Client {
  client.setConfig({ baseUrl: address(baseUrl), fetch: send, throwOnError, requestValidator: refuseUnreachableId, responseValidator: validateSuccess });
  if (!configured.has(client)) typeErrors(client);
  configured.add(client);
  return client;
}
