/** Who is signed in, for a server whose pages only those see who are: what route guards ask. */
import { failure, type SignedOutReason } from "./errors.js";
import { address, bodyOf, genuine, isSession, refusal, type Session, sessionOf, sessionUrl, unlessAborted, within } from "./session.js";

/** For how long, in milliseconds, those who still send cookies that a refresh has replaced get the new ones: less than the service's leeway, 60 s. */
const keptFor = 20_000;
/** How many such refreshes are kept; the oldest are forgotten first. */
const maxKept = 10_000;
/** How long, in milliseconds, after a refresh token was refused another request's new cookies may take to reach the browser. */
const arrival = 2_000;
/** How long, in milliseconds, a call is shared: whoever comes later asks anew. */
const maxAsking = 20_000;
/** How long, in milliseconds, a request waits for the service. The call goes on: it may bring cookies for the next one. */
const patience = 10_000;

/** What a guard looks at: a `Request`, or an event of h3. */
export interface GuardedRequest {
  method: string;
  headers: Headers;
}

/** What a guard has to know. */
export interface Guarded {
  /** Who is signed in: null when nobody is. Undefined when that is not known: respond 503, and ask nobody to sign in. */
  session: Session | null | undefined;
  /** Why nobody is signed in, or may be. */
  reason: SignedOutReason | undefined;
  /** Why it is not known, for the log: a `CallError`, or what `fetch` rejected with. */
  error: unknown;
  /** The header `Cookie` for what this request goes on to do, such as `serverClient`: where the session was refreshed it has the new ones. */
  cookie: string;
  /**
   * What the response has to say, each a header of its own, to append: that no shared cache may keep it, and after a refresh the service's
   * `Set-Cookie` as they are.
   */
  headers: [name: string, value: string][];
}

/** What the service has said. */
interface Answer {
  session: Session | null;
  reason: SignedOutReason | undefined;
  setCookie: string[];
  /** When, in milliseconds since 1970. */
  at: number;
}

/** What the service says, or has just said, of cookies, by these. The oldest is the first. */
const answers = new Map<string, { until: number; answer: Promise<Answer> }>();

/**
 * Asks the service who is signed in, for a request that a server is about to answer. A session whose JWT has expired is refreshed, once
 * for all requests that come with the same cookies within 20 seconds: also for those of a page that was reloaded before the new cookies
 * had arrived. It never rejects.
 *
 * It refreshes nothing for HEAD and for a prefetch, nor for what a page of another site embeds: their `Set-Cookie` may be dropped. With an
 * expired JWT it is then not known who is signed in. Neither is it for two seconds after a refresh token was refused, since the browser may
 * have been faster, and its next request has other cookies.
 */
export async function guardRequest(
  { method, headers }: GuardedRequest, { baseUrl, fetch: given = (...call) => fetch(...call) }: { baseUrl: string; fetch?: typeof fetch | undefined },
): Promise<Guarded> {
  const pairs = (headers.get("Cookie") ?? "").split(";").map((pair) => pair.trim()).filter(Boolean);
  const refreshes = mayRefresh(method, headers);
  const sent = pairs.filter((pair) => pair.startsWith("token=") || (refreshes && pair.startsWith("refreshToken="))).join("; ");
  const guarded = { error: undefined, cookie: pairs.join("; "), headers: [["Cache-Control", "private, no-cache"]] } satisfies Partial<Guarded>;
  try {
    const service = address(baseUrl);
    const answer = share(`${service} ${sent}`, () => ask(service, given, sent));
    const { session, reason, setCookie, at } = await unlessAborted(answer, AbortSignal.timeout(patience));
    const open = reason === "invalid_refresh_token" ? Date.now() - at < arrival
      : reason === "no_refresh_token" && pairs.some((pair) => pair.startsWith("refreshToken="));
    const renewed = setCookie.map((value) => value.split(";")[0]!.trim());
    const nameOf = (pair: string) => pair.split("=")[0]!;
    return {
      ...guarded,
      session: open ? undefined : session,
      reason,
      cookie: [...pairs.filter((pair) => !renewed.some((other) => nameOf(other) === nameOf(pair))), ...renewed].join("; "),
      headers: [...guarded.headers, ...setCookie.map((value) => ["Set-Cookie", value] as [string, string])],
    };
  } catch (error) {
    return { ...guarded, session: undefined, reason: undefined, error };
  }
}

/** Reports whether the new cookies will reach the browser's jar. */
function mayRefresh(method: string, headers: Headers): boolean {
  if (method === "HEAD" || /prefetch|prerender/.test(`${headers.get("Sec-Purpose")} ${headers.get("Purpose")}`)) return false;
  const site = headers.get("Sec-Fetch-Site") ?? "none";
  const isWindow = /^(document|empty)$/.test(headers.get("Sec-Fetch-Dest") ?? ""); // empty behind a service worker
  return site === "none" || site === "same-origin" || (headers.get("Sec-Fetch-Mode") === "navigate" && isWindow);
}

/** What the service says of these cookies: one call for everybody who asks meanwhile, or after it has changed something. */
function share(key: string, ask: () => Promise<Answer>): Promise<Answer> {
  const now = Date.now();
  for (const [key, { until }] of answers) {
    if (until > now && answers.size < maxKept) break;
    answers.delete(key);
  }
  const known = answers.get(key);
  if (known && known.until > now) return known.answer;
  const entry = { until: Infinity, answer: within(maxAsking, ask) };
  answers.set(key, entry);
  const settle = (keeps: boolean) => {
    if (answers.get(key) !== entry) return;
    answers.delete(key);
    if (keeps) answers.set(key, Object.assign(entry, { until: Date.now() + keptFor })); // which makes it the newest
  };
  entry.answer.then(({ reason, setCookie }) => settle(setCookie.length > 0 || reason === "invalid_refresh_token"), () => settle(false));
  return entry.answer;
}

async function ask(baseUrl: string, send: typeof fetch, cookie: string): Promise<Answer> {
  const response = await genuine(baseUrl, send)(sessionUrl(baseUrl), {
    headers: { Cookie: cookie }, cache: "no-store", redirect: "manual",
  });
  const at = Date.now();
  if (response.ok) {
    await isSession(response);
    return { session: sessionOf({ response }), reason: undefined, setCookie: response.headers.getSetCookie(), at };
  }
  const reason = await refusal(response);
  if (!reason) throw failure(response, await bodyOf(response));
  return { session: null, reason, setCookie: [], at };
}
