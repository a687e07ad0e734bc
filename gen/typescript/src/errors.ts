/** What a call that failed rejects with, and how the generated client tells the contract's errors from all others. */
import type { Client } from "./api/client/index.js";
import type {
  BadRequestError, BodyTooLargeError, ForbiddenError, HeadersTooLargeError, IdempotencyConflictError, InternalError, NotFoundError, OverloadedError,
  RateLimitedError, SessionRefusal, UnauthorizedError, UnsupportedMediaTypeError,
} from "./api/index.js";

/** The codes of the contract. Treat one that you do not know as its status says. */
export type ErrorCode = (
  | BadRequestError | BodyTooLargeError | ForbiddenError | HeadersTooLargeError | IdempotencyConflictError | InternalError | NotFoundError | OverloadedError | RateLimitedError
  | UnauthorizedError | UnsupportedMediaTypeError
)["code"];

/**
 * Why nobody is signed in, in the 400s of `getSession` and `refreshSession`, which have no `code`: their `error` as a word.
 *
 * - `no_token`: the browser has no session. `invalid_token`: it has a JWT that is not this service's, or two different ones.
 * - `no_refresh_token`: the JWT has expired, and nothing was sent to refresh it with.
 * - `invalid_refresh_token`: the session has ended; or another request has just refreshed it, and its cookies are on their way.
 */
export type SignedOutReason = Words<Lowercase<SessionRefusal["error"]>>;

type Words<Text extends string> = Text extends `${infer First} ${infer Rest}` ? `${First}_${Words<Rest>}` : Text;

/**
 * Why nobody is signed in, from a result of `getSession` or `refreshSession`. Only the service's own bodies have a reason, exactly: whatever
 * else comes with a 400 is undefined, as a proxy's error is, and says nothing about the session.
 */
export function reasonOf({ error, response }: { error?: unknown; response?: Pick<Response, "status"> | undefined }): SignedOutReason | undefined {
  if (response?.status !== 400) return undefined;
  const body = /^{("authenticated":false,"error":"(No|Invalid)( refresh)?|"error":"(No|Invalid) refresh) token"}$/;
  return body.test(JSON.stringify(error)) ? (error as SessionRefusal).error.toLowerCase().replace(/ /g, "_") as SignedOutReason : undefined;
}

/** A response that is not a success, or none of the service: a portal's page, or what a proxy has made of it. Calls reject with it under `throwOnError`, and always when it is not the contract's. */
export class CallError extends Error {
  override readonly name = "CallError";
  /** The status of the response. */
  readonly status: number;
  /** Undefined for the 400s of `getSession` and `refreshSession`, and for a response that is not the service's. */
  readonly code: ErrorCode | undefined;
  /** Why nobody is signed in, for those 400s. */
  readonly reason: SignedOutReason | undefined;
  /** What is wrong with each bad field, on `validation_failed`. */
  readonly fields: Record<string, string>;
  /** The same as a word for programs: a keyword of JSON Schema, such as `maxLength`, or `repeated`, `cursor` or `list_size`. More may come. */
  readonly fieldCodes: Record<string, string>;
  /** Seconds to wait before the call is repeated. */
  readonly retryAfter: number | undefined;
  /** Names the request in the service's log. */
  readonly requestId: string | undefined;

  constructor(status: number, body: unknown, headers?: Headers) {
    const contract = isContractError(body) ? body : undefined;
    super(contract?.error ?? `A response with the status ${status} is not the service's`, contract ? undefined : { cause: body });
    this.status = status;
    this.code = contract?.code as ErrorCode | undefined;
    this.reason = reasonOf({ error: body, response: { status } });
    this.fields = contract?.fields ?? {};
    this.fieldCodes = contract?.fieldCodes ?? {};
    this.retryAfter = headers && retryAfter(headers);
    this.requestId = contract?.requestId || undefined;
  }
}

/** What has gone wrong, for hooks and watches: a `CallError`, or what `fetch` rejected with, which has none of its members. */
export type Fault = CallError | (Error & { readonly [Member in Exclude<keyof CallError, keyof Error>]?: undefined });

/** What a call rejects with that had this response. */
export const failure = ({ status, headers }: Response, body?: unknown): CallError => new CallError(status, body, headers);

/**
 * The seconds of `Retry-After` (RFC 9110 section 10.2.3). A proxy may give a date: it is then the time until that by the clock of who has
 * written the response's `Date`, since the one here may be wrong, and an hour at most.
 */
export function retryAfter(headers: Headers): number | undefined {
  const text = headers.get("Retry-After") ?? "";
  if (/^\d+$/.test(text)) return Number(text);
  const at = httpDate(text);
  // Without a Date, which pages of other origins do not see, the clock here has to do.
  return at ? Math.min(Math.max(Math.ceil((at - (httpDate(headers.get("Date")) || Date.now())) / 1000), 0), 3600) : undefined;
}

/** A date in one of the three forms of RFC 9110 section 5.6.7, in milliseconds since 1970. NaN for anything else that `Date` would take, such as "1.5". */
const httpDate = (text: string | null): number =>
  /^\w+,? .+:\d\d( GMT| \d{4})$/.test(text!) ? Date.parse(text!.replace(/( GMT)?$/, " GMT")) : NaN;

interface ContractError {
  error: string;
  code?: string;
  fields?: Record<string, string>;
  fieldCodes?: Record<string, string>;
  requestId?: string;
}

const isContractError = (body: unknown): body is ContractError =>
  typeof (body as ContractError | null)?.error === "string";

/**
 * The codes that no repetition of a call can help against, and their statuses. An ingress or a firewall says 400, 401 and 403, too, and
 * means nothing of it a moment later.
 */
const finalCodes: Record<(BadRequestError | UnauthorizedError)["code"] | "forbidden", number> = {
  validation_failed: 400, malformed_json: 400, no_token: 401, token_expired: 401, invalid_token: 401, forbidden: 403,
};

/** Reports whether the service itself has said that the user has to sign in or is kept out, or that the request is wrong. */
export const isFinal = (status: number, code: unknown): boolean => finalCodes[code as keyof typeof finalCodes] === status;

/**
 * Makes `error` what its type says: whatever is not an error of the contract rejects, and everything does under
 * `throwOnError`.
 */
export function typeErrors(client: Client): void {
  client.interceptors.error.use((error, response, _request, options) => {
    if (error instanceof InvalidId) response = error.response;
    else if (response?.ok && error instanceof SyntaxError) throw failure(response);
    else if (!response || response.ok) throw error; // There is no network, the call was aborted, or its body was cut.
    const body = error instanceof InvalidId ? error.body : error;
    if (response.status === 304) return body; // The caller has sent If-None-Match and looks at the response.
    if (!(isContractError(body) && (typeof body.code === "string" || reasonOf({ error: body, response }))) || (options.throwOnError ?? client.getConfig().throwOnError)) {
      throw failure(response, body);
    }
    return body;
  });
}

/** Rejects a success that is none of the contract's. */
export async function validateSuccess(data: unknown): Promise<void> {
  const { success, authenticated, events } = (data ?? {}) as Record<string, unknown>;
  if (success !== true && authenticated !== true && !Array.isArray(events)) throw new CallError(200, data);
}

/** A call that is not made, with the error that the service would have sent. */
class InvalidId {
  readonly body: BadRequestError = {
    error: "Invalid request", code: "validation_failed", fields: { id: 'must not be empty, "." or ".."' }, fieldCodes: { id: "not" }, requestId: "",
  };
  readonly response = new Response(null, { status: 400 });
}

/** Refuses the ids that a browser cannot put into a path: it would call another address. */
export async function refuseUnreachableId(call: unknown): Promise<void> {
  const id = (call as { path?: { id?: unknown } }).path?.id;
  if (id === "" || id === "." || id === "..") throw new InvalidId();
}
