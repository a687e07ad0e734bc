/**
 * The worldevents API for browsers: the generated operations and types, over a fetch that keeps the session alive.
 * This file is the only one written by hand; `src/api` is made from the contract.
 *
 * @packageDocumentation
 */
import { client } from "./api/client.gen.js";

export * from "./api/index.js";

/** How to reach the service. */
export interface Connection {
  /** The service's public address, such as `https://api.example.org`; `""` is the origin of the page. */
  baseUrl: string;
  /**
   * Called when a call fails because the user has to sign in: once, then not again before an event operation or
   * `refreshSession` has succeeded. `getSession` does not count: it may succeed for 15 minutes after the session was
   * revoked. The call's own result says so too, as a 401.
   */
  onSignInNeeded?: () => void;
  /** Used in place of the global `fetch`. */
  fetch?: typeof fetch;
}

/**
 * Makes the operations of this package call `baseUrl` with the session's cookies and keep the session alive. Call it
 * once, before the first operation.
 *
 * An operation then resolves to `{ data }` or to an `{ error }` of the contract. Whatever else happens (no network, an
 * aborted call, a proxy's error page) rejects its promise.
 */
export function connect(connection: Connection): void {
  client.setConfig({ baseUrl: connection.baseUrl, fetch: keepSession(connection) });
  if (!client.interceptors.error.exists(rejectForeign)) client.interceptors.error.use(rejectForeign);
}

/**
 * A `fetch` for any client of the API that sends the cookies and keeps the session alive. When a call finds the JWT
 * expired, the session is refreshed once for all calls and tabs, and the call is repeated once.
 *
 * `getSession` and `refreshSession` go through the same gate: of any number at once, one request is made.
 */
export function keepSession({ baseUrl, onSignInNeeded, fetch: send = (...call) => fetch(...call) }: Connection): typeof fetch {
  const running = new Map<string, Promise<Response>>();
  let told = false;

  /** The answer to one request for everybody who asks meanwhile, in all tabs one after the other. */
  async function share(url: string): Promise<Response> {
    let answer = running.get(url);
    if (!answer) {
      answer = alone(baseUrl, () => settle(url)).finally(() => running.delete(url));
      running.set(url, answer);
    }
    return (await answer).clone();
  }

  /**
   * Lets the service refresh an expired session. `keepalive` lets the request outlive the page, so that its cookies
   * reach the browser even when the user reloads.
   */
  async function settle(url: string): Promise<Response> {
    const ask = () => send(url, { credentials: "include", cache: "no-store", keepalive: true });
    const flight = takeOff(baseUrl);
    try {
      let answer = await ask();
      if (url === sessionUrl(baseUrl) && (await lostRace(answer))) {
        answer = await ask();
        // A page that is gone, or one of a browser without Web Locks, may still be waiting for the winner's cookies.
        while (flight.othersInTheAir() && (await lostRace(answer))) {
          await new Promise((next) => setTimeout(next, 250));
          answer = await ask();
        }
      }
      if (answer.ok) flight.clear();
      return answer;
    } finally {
      flight.land();
    }
  }

  function refused(response: Response): Response {
    if (!told) onSignInNeeded?.();
    told = true;
    return response;
  }

  return async (input, init) => {
    let request = new Request(input, init);
    if (request.credentials !== "omit") request = new Request(request, { credentials: "include" });
    if (request.url === sessionUrl(baseUrl) || request.url === refreshUrl(baseUrl)) {
      const answer = await share(request.url);
      request.signal.throwIfAborted();
      if (answer.ok && request.url === refreshUrl(baseUrl)) told = false;
      return answer;
    }

    const again = request.clone();
    const response = await send(request);
    if (response.ok) told = false;
    if (response.status !== 401) return response;
    // Only age can be mended: the refresh token of a session that was revoked ended with it.
    if ((await word(response, "code")) !== "token_expired") return refused(response);

    const session = await share(sessionUrl(baseUrl));
    if (session.status === 400) return refused(response);
    if (!session.ok) return session; // 429, 500, 503: nothing is known about the session
    const repeated = await send(again);
    return repeated.status === 401 ? refused(repeated) : repeated;
  };
}

/**
 * Signs out here and in every tab, and revokes the session; the user's others go on. Scripts cannot clear the httpOnly
 * cookies themselves.
 */
export async function signOut(): Promise<void> {
  const { baseUrl = "" } = client.getConfig();
  const response = await alone(baseUrl, () => fetch(`${baseUrl}/sign-out`, { method: "POST", credentials: "include" }));
  if (!response.ok) throw new Error(`signing out was answered ${response.status}`);
}

/** The address that signs the user in and then returns to `returnTo`. */
export function signInUrl(returnTo: string): string {
  return `${client.getConfig().baseUrl ?? ""}/sign-in?return_to=${encodeURIComponent(returnTo)}`;
}

/** Who is signed in, and until when without a refresh: from the answer to `getSession` or `refreshSession`. */
export function sessionOf({ response }: { response?: Response }): { username: string | undefined; expires: Date } {
  const name = response?.headers.get("Session-User");
  return {
    username: name == null ? undefined : decodeURIComponent(name),
    expires: new Date(response?.headers.get("Session-Expires") ?? NaN),
  };
}

const absolute = (url: string) => new URL(url, globalThis.location?.href).href;
const sessionUrl = (baseUrl: string) => absolute(`${baseUrl}/api/auth/session`);
const refreshUrl = (baseUrl: string) => absolute(`${baseUrl}/api/auth/refresh`);

/** A member of a JSON body that can still be read afterwards. */
async function word(response: Response, name: "code" | "error"): Promise<unknown> {
  const body = await response.clone().json().catch(() => undefined);
  return body?.[name];
}

/** Whether somebody else has spent the refresh token. */
const lostRace = async (answer: Response) =>
  answer.status === 400 && (await word(answer, "error")) === "Invalid refresh token";

/** Runs when no other tab runs: Web Locks exist on https and localhost. Without them the service decides who wins. */
async function alone<T>(name: string, run: () => Promise<T>): Promise<T> {
  const locks: LockManager | undefined = globalThis.navigator?.locks;
  return locks ? locks.request(`worldevents ${name}`, run) : run();
}

/**
 * Notes in localStorage that a refresh is under way, since its answer may arrive after its page has gone. A note of
 * another page counts for 20 seconds: less than the service's leeway for a spent token, 60 seconds.
 */
function takeOff(name: string) {
  const key = `worldevents ${name}`;
  const me = Math.random().toString(36).slice(2);
  const storage = openStorage();
  const note = () => storage?.getItem(key)?.split(" ") ?? [];
  const othersInTheAir = () => {
    const [since, who] = note();
    return who !== me && Math.abs(Date.now() - Number(since)) < 20_000;
  };
  if (!othersInTheAir()) storage?.setItem(key, `${Date.now()} ${me}`);
  return {
    othersInTheAir,
    land: () => note()[1] === me && storage?.removeItem(key),
    clear: () => storage?.removeItem(key),
  };
}

/** None outside browsers, nor where the user has blocked it: then the getter throws. */
function openStorage(): Storage | undefined {
  try {
    return globalThis.localStorage;
  } catch {
    return undefined;
  }
}

/** Errors that are not the contract's reject, so that `error` is what its type says. */
function rejectForeign(error: unknown, response: Response | undefined): unknown {
  if (typeof error === "object" && response) return error;
  throw response ? new Error(`answered ${response.status}`, { cause: error }) : error;
}
