/**
 * The worldevents API for browsers: the generated operations and types, over a fetch that keeps the session alive.
 * `src/api` is made from the contract; everything beside it is written by hand.
 *
 * @packageDocumentation
 */
export * from "./api/index.js";
export { client } from "./api/client.gen.js";
export type { Client } from "./api/client/index.js";
export { connect, createClient, type Operations, serverClient, type ServerConnection, type Throwing } from "./connect.js";
export { CallError, type ErrorCode, type Fault, reasonOf, type SignedOutReason } from "./errors.js";
export { allEvents, createEvent, type Created, hasJoined, listOf, nextPage, past, type TaggedList, upcoming } from "./events.js";
export { type Guarded, type GuardedRequest, guardRequest } from "./guard.js";
export { limits } from "./limits.js";
export {
  type Connection, keepSession, onSessionChange, type Session, sessionOf, signInUrl, signOut,
} from "./session.js";
export { eventLists, type LiveStatus, watchEvents, type Watcher, type WatchOptions } from "./watch.js";
