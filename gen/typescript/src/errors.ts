/** What a call that failed rejects with, and how the generated client tells the contract's errors from all others. */
import type { Client } from "./api/client/index.js";
import type {
  BadRequestError, BodyTooLargeError, ForbiddenError, HeadersTooLargeError, InternalError, NotFoundError, OverloadedError, RateLimitedError,
  UnauthorizedError, UnsupportedMediaTypeError,
} from "./api/index.js";

/** The codes of the contract. Treat one that you do not know as its status says. */
export type ErrorCode = (
  | BadRequestError | BodyTooLargeError | ForbiddenError | HeadersTooLargeError | InternalError | NotFoundError | OverloadedError | RateLimitedError
  | UnauthorizedError | UnsupportedMediaTypeError
)["code"];

/** A response that is not a success, or none of the service: a portal's page, or what a proxy has made of it. Calls reject with it under `throwOnError`, and always when it is not the contract's. */
export class CallError extends Error {
  override readonly name = "CallError";
  /** The status of the response. */
  readonly status: number;
  /** Undefined for the 400s of `getSession` and `refreshSession`, and for a response that is not the service's. */
  readonly code: ErrorCode | undefined;
  /** What is wrong with each bad field, on `validation_failed`. */
  readonly fields: Record<string, string>;
  /** Seconds to wait before the call is repeated. */
  readonly retryAfter: number | undefined;
  /** Names the request in the service's log. */
  readonly requestId: string | undefined;

  constructor(status: number, body: unknown, headers?: Headers) {
    const contract = isContractError(body) ? body : undefined;
    const what = status < 400 ? `A response with the status ${status} is not the service's` : `The response has the status ${status}`;
    super(contract?.error ?? what, contract ? undefined : { cause: body });
    this.status = status;
    this.code = contract?.code as ErrorCode | undefined;
    this.fields = contract?.fields ?? {};
    this.retryAfter = headers && retryAfter(headers);
    this.requestId = contract?.requestId || undefined;
  }
}

/** The seconds of `Retry-After`, which the service never gives as a date. */
export function retryAfter(headers: Headers): number | undefined {
  const text = headers.get("Retry-After") ?? "";
  return /^\d+$/.test(text) ? Number(text) : undefined;
}

interface ContractError {
  error: string;
  code?: string;
  fields?: Record<string, string>;
  requestId?: string;
}

const isContractError = (body: unknown): body is ContractError =>
  typeof (body as ContractError | null)?.error === "string";

/**
 * Makes `error` what its type says: whatever is not an error of the contract rejects, and everything does under
 * `throwOnError`.
 */
export function typeErrors(client: Client): void {
  client.interceptors.error.use((error, response, _request, options) => {
    if (error instanceof InvalidId) response = error.response;
    else if (response?.ok && error instanceof SyntaxError) throw new CallError(response.status, undefined, response.headers);
    else if (!response || response.ok) throw error; // There is no network, the call was aborted, or its body was cut.
    const body = error instanceof InvalidId ? error.body : error;
    if (response.status === 304) return body; // The caller has sent If-None-Match and looks at the response.
    if (!isContractError(body) || (options.throwOnError ?? client.getConfig().throwOnError)) {
      throw new CallError(response.status, body, response.headers);
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
    error: "Invalid request", code: "validation_failed", fields: { id: 'must not be empty, "." or ".."' }, requestId: "",
  };
  readonly response = new Response(null, { status: 400 });
}

/** Refuses the ids that a browser cannot put into a path: it would call another address. */
export async function refuseUnreachableId(call: unknown): Promise<void> {
  const id = (call as { path?: { id?: unknown } }).path?.id;
  if (id === "" || id === "." || id === "..") throw new InvalidId();
}
