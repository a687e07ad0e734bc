/** The browser's session: kept alive, shared by all tabs, ended. */
import { client as defaultClient } from "./api/client.gen.js";
import type { Client } from "./api/client/index.js";
import { failure, isFinal, reasonOf, retryAfter, type SignedOutReason, validateSuccess } from "./errors.js";

/** How to reach the service. */
export interface Connection {
  /** The service's public address, such as `https://api.example.org`; `""` is the origin of the page. A slash at its end makes no difference. */
  baseUrl: string;
  /**
   * Called when a call fails because the user has to sign in: once, then not again before an event operation or
   * `refreshSession` has succeeded. `getSession` does not count: it may succeed for 15 minutes after the session was
   * revoked. The call's own result says so too, as a 401. It is not called after `signOut`, in this tab or another.
   */
  onSignInNeeded?: (() => void) | undefined;
  /** Used in place of the global `fetch`. */
  fetch?: typeof fetch | undefined;
}

/** Who is signed in, and until when without a refresh. */
export interface Session {
  username: string | undefined;
  expires: Date;
}

/** The header that makes repeated creations of an event one and the same. */
export const keyHeader = "Idempotency-Key";

/** A new key. It begins with its time, in milliseconds, and need not be a secret. */
export const newKey = (): string => [Date.now(), Math.random(), Math.random()].join("-");

/** How often a call that was 429 or 503, or whose connection broke, is repeated, and the longest `Retry-After`, in seconds, that is waited for. */
const maxRetries = 2;
const maxRetryAfter = 10;

/** For how long, in milliseconds, a creation is repeated whose connection broke. */
const maxRepeating = 30_000;

/**
 * For how long, in milliseconds, whoever asks for the session waits, for the lock of the tabs and the response together. The request itself goes
 * on for longer: its response may still bring cookies, for the next one who asks.
 */
const patience = 20_000;
const maxRefreshing = 60_000;

/** How long, in milliseconds, a join or a leave may take: the next one of its event waits for it. */
const maxTurn = 30_000;

/** How often, every 250 ms, a tab without Web Locks asks again whether the cookies of a faster one have arrived. */
const maxRaces = 8;

/**
 * A `fetch` for any client of the API that sends the cookies and keeps the session alive. When a call finds the JWT
 * expired, the session is refreshed once for all calls and tabs, and the call is repeated once. A call that is 429 or
 * 503 with `Retry-After` is repeated as told: up to twice, and only if that is at most 10 seconds. A refresh that is not answered rejects after
 * 20 seconds, with a `TimeoutError`, and a join or a leave after 30: the next call begins anew.
 *
 * A `createEvent` without an `Idempotency-Key` gets one of its own. Once the service has said that it knows them, a creation whose
 * connection broke is repeated, too: up to twice within 30 seconds. It makes one event.
 *
 * `getSession` and `refreshSession` go through the same gate: of any number at once, one request is made. Only a page or
 * a worker shares, and only calls without headers of their own: elsewhere one process may serve many users.
 */
export function keepSession(connection: Connection): typeof fetch {
  const { fetch: given = (...call) => fetch(...call) } = connection;
  const baseUrl = address(connection.baseUrl);
  const send = genuine(baseUrl, retrying(given));
  const shares = inBrowser();
  const running = new Map<string, Promise<Response>>();
  const turns = new Map<string, Promise<unknown>>(); // of events, while they are joined or left
  const state = new SessionState(connection, send, shares);

  /** The response to one request for everybody who asks meanwhile, in all tabs one after the other. */
  async function share(url: string): Promise<Response> {
    let response = running.get(url);
    if (!response) {
      response = withTabLock(baseUrl, () => ask(url)).finally(() => running.delete(url));
      running.set(url, response);
    }
    return (await response).clone();
  }

  /** The response to a request of this caller alone, whose headers may name another user than those of the next one. */
  function askAlone(url: string, request: Request): Promise<Response> {
    const headers = new Headers(request.headers);
    for (const name of ["content-type", "content-length", "if-none-match"]) headers.delete(name);
    return shares ? withTabLock(baseUrl, () => ask(url, headers)) : ask(url, headers);
  }

  /**
   * Lets the service refresh an expired session. `keepalive` lets the request outlive the page, so that its cookies
   * reach the browser even when the user reloads.
   */
  async function ask(url: string, headers?: Headers): Promise<Response> {
    const signal = AbortSignal.timeout?.(maxRefreshing);
    const once = () => send(url, { credentials: "include", cache: "no-store", keepalive: true, headers, signal });
    const mark = shares ? markRefreshPending(baseUrl) : undefined;
    const epoch = state.epoch;
    try {
      let response = await once();
      if (url === sessionUrl(baseUrl) && (await lostRace(response))) {
        response = await once();
        // A page that is gone may still be waiting for the winner's cookies. So may any other tab where there are no Web Locks:
        // there the tabs overwrite each other's note.
        let retries = shares && !tabLocks() ? maxRaces : 0;
        while ((mark?.otherTabPending() || retries-- > 0) && (await lostRace(response))) {
          await new Promise((next) => setTimeout(next, 250));
          response = await once();
        }
      }
      if (response.ok) {
        await isSession(response);
        mark?.clear();
        if (url === refreshUrl(baseUrl)) state.works(epoch);
        state.signedIn(sessionOf({ response }), epoch);
      } else if (await refusal(response)) state.nobody(epoch);
      return response;
    } finally {
      mark?.done();
    }
  }

  /** Joins and leaves of one event go in the order of the calls, also where the first waits to be repeated: the last one wins. */
  function inTurn(request: Request, act: (request: Request) => Promise<Response>): Promise<Response> {
    const { method, url, signal } = request;
    const event = method === "DELETE" || /\/event\/join\/[^/]*$/.test(url) ? /[^/]*$/.exec(url)![0] : "";
    if (!event || !shares) return act(request);
    const before = turns.get(event);
    const begin = () => within(maxTurn, async (signal) => {
      const response = await act(new Request(request, { signal }));
      await bodyOf(response); // It is there within the time, too.
      return response;
    }, signal);
    const result = before ? unlessAborted(before, signal).then(begin) : begin();
    const turn = Promise.allSettled([before, result]).finally(() => turns.get(event) === turn && turns.delete(event));
    turns.set(event, turn);
    return result;
  }

  /** The response to an event operation. Where the JWT has expired the session is refreshed, and the response is that to `again`. */
  async function attempt(request: Request, again?: Request): Promise<Response> {
    const { epoch } = state;
    const response = await send(request);
    if (response.ok || response.status === 304) state.done(epoch, request);
    const code = await denial(response);
    // Only age can be mended: the refresh token of a session that was revoked ended with it.
    if (code === "token_expired" && again) {
      const url = sessionUrl(baseUrl);
      const session = await unlessAborted(shares ? share(url) : askAlone(url, again), again.signal);
      if (session.ok) return attempt(again);
      if (!(await refusal(session))) return session; // 429, 500, 503, or what a proxy says: nothing is known about the session
    }
    if (code) state.refused(epoch);
    return response;
  }

  const keeping: typeof fetch = async (input, init) => {
    let request = new Request(input, init);
    if (request.credentials === "omit") return send(request);
    request = new Request(request, { credentials: "include" });
    const { url, headers } = request;
    if (request.method === "POST" && /\/api\/event\/[^/]*$/.test(url) && !headers.has(keyHeader)) {
      headers.set(keyHeader, newKey());
    }
    if (url === sessionUrl(baseUrl) || url === refreshUrl(baseUrl)) {
      const own = !shares || !isEmpty(request.headers);
      return unlessAborted(own ? askAlone(url, request) : share(url), request.signal);
    }

    return inTurn(request, (request) => attempt(request, request.clone()));
  };
  states.set(keeping, state);
  return keeping;
}

/** The state of each `fetch` that keepSession has made. */
const states = new WeakMap<typeof fetch, SessionState>();

const stateOf = (client: Client) => {
  const { fetch } = client.getConfig();
  return fetch && states.get(fetch);
};

/** What is known of the session, here and from other tabs. */
class SessionState {
  /** Counts the changes of the user. The response to a call that began before the last one tells nothing any more. */
  epoch = 0;
  readonly listeners = new Set<(session: Session | undefined) => void>();
  /** Called after an event operation of this tab that may have changed a list. */
  readonly writeListeners = new Set<() => void>();
  /** Why onSignInNeeded is not called: it has been, or the user has signed out. */
  #quiet: "notified" | "signed out" | undefined;
  /** How many calls of signOut are under way. */
  #leaving = 0;
  /** Undefined until something is known, null when nobody is signed in. */
  #session: Session | null | undefined;
  /** The session that has ended: getSession may go on to succeed with it, until its JWT expires. */
  #ended: Session | undefined;
  readonly #channel: BroadcastChannel | undefined;
  readonly #onSignInNeeded: (() => void) | undefined;
  /** Where links lead to: the same on a server that renders a page and in the page. */
  readonly base: string;

  constructor({ baseUrl, onSignInNeeded }: Connection, readonly send: typeof fetch, shares: boolean) {
    this.#onSignInNeeded = onSignInNeeded;
    this.base = address(baseUrl, null);
    if (!shares || !("BroadcastChannel" in globalThis)) return;
    this.#channel = new BroadcastChannel(`worldevents ${address(baseUrl)}`);
    (this.#channel as { unref?(): void }).unref?.(); // Where tests pretend to be a page, Node would wait for it.
    this.#channel.onmessage = ({ data }: MessageEvent<Told | undefined>) => {
      const { session, signedOut } = data ?? {}; // Anything on this origin can send here.
      if (signedOut) {
        this.#quiet = "signed out";
        this.epoch++; // What began before may still succeed, or be refused, and says nothing about the sign-out.
      }
      if (session !== undefined && differ(this.#session, session) && !this.#isEnded(session)) this.#change(session);
    };
  }

  /** An event operation has succeeded, with this request. */
  done(epoch: number, { method }: Request): void {
    this.works(epoch);
    if (method !== "GET") for (const listener of [...this.writeListeners]) listener();
  }

  /** The session works: an event operation or a refresh has succeeded. */
  works(epoch: number): void {
    if (this.#isStale(epoch)) return;
    this.#quiet = undefined;
    this.#ended = undefined;
  }

  /** The user has to sign in. */
  refused(epoch: number): void {
    if (this.#isStale(epoch)) return;
    const notify = !this.#quiet;
    this.#quiet ??= "notified";
    this.#learn(null);
    if (notify) this.#onSignInNeeded?.();
  }

  signedIn(session: Session, epoch: number): void {
    if (!this.#isStale(epoch) && !this.#isEnded(session)) this.#learn(session);
  }

  /** Takes what a page shows as known, while no response has said anything. */
  assume({ username, expires }: Session): void {
    if (this.#session === undefined) this.#session = { username, expires: new Date(expires) };
  }

  nobody(epoch: number): void {
    if (!this.#isStale(epoch)) this.#learn(null);
  }

  /**
   * The user signs out: calls that are under way, or come late, ask nobody to sign in again. The other tabs are told before
   * the service is: it ends their calls at once, and they would ask.
   */
  async signOut(act: () => Promise<void>): Promise<void> {
    this.#leaving++;
    this.#channel?.postMessage({ signedOut: true } satisfies Told);
    try {
      await act();
    } finally {
      this.#leaving--;
    }
    this.#quiet = "signed out";
    this.epoch++; // The calls that began meanwhile may still have succeeded.
    this.#channel?.postMessage({ session: null, signedOut: true } satisfies Told);
    if (differ(this.#session, null)) this.#change(null);
  }

  /** Reports whether the response to a call that began at `epoch` tells nothing about the session any more. */
  #isStale(epoch: number): boolean {
    return this.#leaving > 0 || epoch !== this.epoch;
  }

  #isEnded(session: Session | null): boolean {
    return !!session && !differ(this.#ended, session) && this.#ended?.expires.getTime() === session.expires.getTime();
  }

  /** Takes what a response says. The first one changes nothing here, though it may in other tabs. */
  #learn(session: Session | null): void {
    if (!differ(this.#session, session)) {
      if (session) this.#session = session;
      return;
    }
    this.#channel?.postMessage({ session, signedOut: false } satisfies Told);
    if (this.#session === undefined) this.#session = session;
    else this.#change(session);
  }

  #change(session: Session | null): void {
    if (!session && this.#session) this.#ended = this.#session;
    // The cookies were gone, so this is a sign-in. Otherwise it may be the 200 of a session that was revoked.
    if (session && this.#quiet === "signed out") this.#quiet = undefined;
    this.#session = session;
    this.epoch++;
    for (const listener of [...this.listeners]) listener(session ?? undefined);
  }
}

/** What a tab tells the others. */
interface Told {
  /** Null when nobody is signed in, and undefined while a tab signs out. */
  session?: Session | null;
  signedOut: boolean;
}

const differ = (before: Session | null | undefined, session: Session | null) =>
  before === undefined || !before !== !session || before?.username !== session?.username;

/**
 * Calls back whenever somebody signs in, with the session, and whenever the session ends, with undefined: in this tab or
 * another. A tab learns of a sign-in when a page that the user returns to calls `getSession`. Returns a function that
 * ends it. Call `connect` first.
 *
 * `known` is the session that the page shows without having asked, since a server has rendered it: only then is its end one for this tab.
 */
export function onSessionChange(
  callback: (session: Session | undefined) => void,
  { client = defaultClient, known }: { client?: Client | undefined; known?: Session | null | undefined } = {},
): () => void {
  const state = stateOf(client);
  const listeners = state?.listeners;
  if (known) state?.assume(known);
  const listener = (session: Session | undefined) => callback(session);
  listeners?.add(listener);
  return () => void listeners?.delete(listener);
}

/** Calls back after each write of this tab. Returns a function that ends it. */
export function onWrite(callback: () => void, client: Client): () => void {
  const listeners = stateOf(client)?.writeListeners;
  listeners?.add(callback);
  return () => void listeners?.delete(callback);
}

/**
 * Signs out here and in every tab, and revokes the session; the user's others go on. Scripts cannot clear the httpOnly
 * cookies themselves.
 */
export async function signOut({ client = defaultClient }: { client?: Client | undefined } = {}): Promise<void> {
  const baseUrl = address(client.getConfig().baseUrl);
  const state = stateOf(client);
  const act = () => withTabLock(baseUrl, async () => {
    const response = await (state?.send ?? fetch)(`${baseUrl}/sign-out`, { method: "POST", credentials: "include" });
    if (response.status !== 204) throw failure(response, await bodyOf(response)); // The service has nothing to say.
  });
  await (state ? state.signOut(act) : act());
}

/** The address that signs the user in and then returns to `returnTo`. */
export function signInUrl(returnTo: string, { client = defaultClient }: { client?: Client | undefined } = {}): string {
  return `${stateOf(client)?.base ?? address(client.getConfig().baseUrl)}/sign-in?return_to=${encodeURIComponent(returnTo)}`;
}

/** Who is signed in, from the result of `getSession` or `refreshSession`. It throws a `CallError` for a name that nobody can have. */
export function sessionOf({ response }: { response?: Response | undefined }): Session {
  const name = response?.headers.get("Session-User");
  try {
    return {
      username: name == null ? undefined : decodeURIComponent(name),
      expires: new Date(response?.headers.get("Session-Expires") ?? NaN),
    };
  } catch {
    throw failure(response!);
  }
}

/** Reports whether this is a page or a worker of one, or a React Native app: all that runs here is one user's. */
export const inBrowser = (): boolean =>
  "document" in globalThis || ("WorkerGlobalScope" in globalThis && !!globalThis.location) ||
  globalThis.navigator?.product === "ReactNative";

/**
 * The address of a service, as all of its addresses and what is called after it begin: absolute where there is a page, and without a slash at
 * its end.
 */
export function address(baseUrl: string | null | undefined, page: { origin: string } | null | undefined = globalThis.location): string {
  let absolute = (baseUrl ?? "").replace(/[?#].*/, "");
  try {
    absolute = new URL(absolute, page && page.origin !== "null" ? page.origin : undefined).href;
  } catch {
    // A server that renders a page may connect with a relative address, and never call.
  }
  return absolute.replace(/\/+$/, "");
}

export const sessionUrl = (baseUrl: string) => `${baseUrl}/api/auth/session`;
const refreshUrl = (baseUrl: string) => `${baseUrl}/api/auth/refresh`;

const isEmpty = (headers: Headers) => {
  let empty = true;
  headers.forEach(() => (empty = false));
  return empty;
};

/**
 * Repeats calls that were 429 or 503 as their Retry-After tells, with jitter: they have had no effect. Whether a call had one whose
 * connection broke nobody knows. It is repeated if it has a key, and the service knows keys.
 */
function retrying(send: typeof fetch): typeof fetch {
  let knowsKeys = false;
  return async (input, init) => {
    const { signal, headers } = input instanceof Request ? input : { signal: undefined, headers: undefined };
    const began = Date.now();
    for (let retry = 0; ; retry++) {
      const last = retry === maxRetries;
      let pause = retry + 1; // in seconds
      try {
        const response = await send(input instanceof Request && !last ? input.clone() : input, init);
        knowsKeys ||= response.headers.get(keyHeader) === "accepted";
        const seconds = retryAfter(response.headers);
        const refused = response.status === 429 || response.status === 503;
        if (last || !refused || seconds === undefined || seconds > maxRetryAfter) return response;
        pause = seconds;
      } catch (error) {
        if (last || !knowsKeys || !headers?.has(keyHeader) || signal?.aborted || Date.now() - began > maxRepeating) throw error;
      }
      await sleep(pause * 1000 + Math.random() * 500 * (retry + 1), init?.signal ?? signal);
    }
  };
}

/** Rejects a success of the API that is not 200 with JSON: that of a portal in between, or of the page that a host shows for any address. */
export function genuine(baseUrl: string, send: typeof fetch): typeof fetch {
  return async (input, init) => {
    const response = await send(input, init);
    const { headers, ok, status } = response;
    if (!ok || !(input instanceof Request ? input.url : `${input}`).startsWith(`${baseUrl}/api/`)) return response;
    if (status === 200 && /^application\/json *(;|$)/i.test(headers.get("Content-Type") ?? "") && headers.get("Content-Length") !== "0") return response;
    await response.body?.cancel();
    throw failure(response);
  };
}

/** Rejects a 200 of `getSession` or `refreshSession` that does not say whose session it is, and for how long. */
export async function isSession(response: Response): Promise<void> {
  await validateSuccess(await bodyOf(response));
  if (Number.isNaN(sessionOf({ response }).expires.getTime())) throw failure(response);
}

/** The longest wait: a timer of more than 24.8 days would end at once. */
const maxSleep = 3_600_000;

/** Waits an hour at most, and rejects with the reason of `signal` when that is aborted. */
export function sleep(milliseconds: number, signal?: AbortSignal | null): Promise<void> {
  let timer: ReturnType<typeof setTimeout>;
  const waited = new Promise<void>((resolve) => (timer = setTimeout(resolve, Math.min(milliseconds, maxSleep))));
  return unlessAborted(waited, signal).finally(() => clearTimeout(timer));
}

/** Waits for something, and rejects with the reason of `signal` when that is aborted. */
export const unlessAborted = <T>(waited: Promise<T>, signal?: AbortSignal | null): Promise<T> => within(0, () => waited, signal);

/** What is done within so many milliseconds, 0 for any. It rejects otherwise, and when `signal` is aborted; what was done until then is aborted. */
export const within = <T>(milliseconds: number, act: (signal: AbortSignal) => Promise<T>, signal?: AbortSignal | null) =>
  new Promise<T>((resolve, reject) => {
    const end = new AbortController();
    const fail = (reason: unknown) => {
      reject(reason);
      end.abort(reason);
    };
    const abort = () => fail(signal!.reason ?? error("AbortError", "The call was aborted."));
    const timer = milliseconds ? setTimeout(() => fail(timedOut()), milliseconds) : undefined;
    signal?.addEventListener("abort", abort);
    if (signal?.aborted) abort();
    act(end.signal).then(resolve, fail).finally(() => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    });
  });

/** What a call rejects with that has taken too long. */
export const timedOut = () => error("TimeoutError", "The service does not respond");

/** An error that is named as those of the browser: not each runtime has a DOMException, or reasons of signals. */
const error = (name: string, message: string) => Object.assign(new Error(message), { name });

/** The JSON of a body that can still be read afterwards. */
export const bodyOf = async (response: Response) => response.clone().json().catch(() => undefined);

/** The code of a 401 that is the service's. */
async function denial(response: Response): Promise<unknown> {
  const code = response.status === 401 && (await bodyOf(response))?.code;
  return isFinal(401, code) && code;
}

/** Why nobody is signed in, where the service itself says so. */
export const refusal = async (response: Response): Promise<SignedOutReason | undefined> =>
  response.status === 400 ? reasonOf({ error: await bodyOf(response), response }) : undefined;

/** Reports whether somebody else has spent the refresh token. */
const lostRace = async (response: Response) => (await refusal(response)) === "invalid_refresh_token";

/** Undefined where there are none, whatever the types say. */
export const tabLocks = () => inBrowser() ? globalThis.navigator?.locks as LockManager | undefined : undefined;

/** Runs when no other tab runs: Web Locks exist on https and localhost. Without them the service decides who wins. */
async function withTabLock<T>(name: string, run: () => Promise<T>): Promise<T> {
  const locks = tabLocks();
  return within(patience, async (signal) => locks ? locks.request(`worldevents ${name}`, { signal }, () => unlessAborted(run(), signal)) : run());
}

/**
 * Notes in localStorage that a refresh is under way, since its response may arrive after its page has gone. A note of
 * another page counts for 15 seconds: less than the service's leeway for a spent token, 60 seconds, and than whoever asks waits.
 */
function markRefreshPending(name: string) {
  const key = `worldevents ${name}`;
  const me = Math.random().toString(36).slice(2);
  const note = () => quietly(() => localStorage.getItem(key))?.split(" ") ?? [];
  const otherTabPending = () => {
    const [since, who] = note();
    return who !== me && Math.abs(Date.now() - Number(since)) < 15_000;
  };
  if (!otherTabPending()) quietly(() => localStorage.setItem(key, `${Date.now()} ${me}`));
  const clear = () => quietly(() => localStorage.removeItem(key));
  return { otherTabPending, done: () => note()[1] === me && clear(), clear };
}

/** What `use` returns, or nothing where it throws: storage may be missing, blocked by the user, or full, and a note is no more than a help. */
function quietly<T>(use: () => T): T | undefined {
  try {
    return use();
  } catch {
    return undefined;
  }
}
