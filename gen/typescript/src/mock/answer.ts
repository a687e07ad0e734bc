/** What the mock responds: successes, the one shape of errors, and the HTTP response that is made of them. */
import { uuid } from "./random.js";

/** A response in the making. */
export interface Answer {
  status: number;
  headers?: Record<string, string>;
  /** The lines of Set-Cookie. */
  cookies?: string[];
  /** Undefined for none. A text is JSON already, or what its Content-Type says. */
  body?: unknown;
}

/** What is wrong with each bad field: a code for programs, and words for people. */
export type Fields = Record<string, [code: string, message: string]>;

/** An error of the contract, as in the service's table of errors. It is thrown, and becomes the response. */
export class Problem extends Error {
  constructor(
    readonly status: number, readonly code: string, message: string,
    readonly more: { fields?: Record<string, string>; fieldCodes?: Record<string, string>; detail?: string } = {}, readonly headers: Record<string, string> = {},
  ) {
    super(message);
  }
}

export const invalid = (fields: Fields) => {
  const each = (index: 0 | 1) => Object.fromEntries(Object.entries(fields).map(([name, fault]) => [name, fault[index]]));
  return new Problem(400, "validation_failed", "The request does not fit the contract", { fields: each(1), fieldCodes: each(0) });
};
export const malformed = () =>
  new Problem(400, "malformed_json", "The body is not one JSON document in UTF-8 without duplicate names");
export const unauthorized = (code: "no_token" | "token_expired" | "invalid_token") => new Problem(401, code, "Not authenticated");
export const crossOrigin = () => new Problem(403, "cross_origin", "Cross-origin request refused");
export const forbidden = () => new Problem(403, "forbidden", "The owner of this world does not let you do this");
export const noEvent = () => new Problem(404, "event_not_found", "No such event");
export const notFound = () => new Problem(404, "not_found", "No such path");
export const noMethod = (allow: string) =>
  new Problem(405, "method_not_allowed", "The path does not have this method", {}, { Allow: allow });
export const keyUsed = () => new Problem(409, "idempotency_conflict", "Another event was created with this Idempotency-Key");
export const tooLarge = () => new Problem(413, "body_too_large", "The body is larger than 64 KiB, or does not end");
export const mediaType = () => new Problem(415, "unsupported_media_type", "The body must be application/json in UTF-8");
export const tooManyHeaders = () => new Problem(431, "headers_too_large", "The request has more than 100 header lines");
export const rateLimited = () => new Problem(429, "rate_limited", "Too many requests");
export const overloaded = () => new Problem(503, "overloaded", "Overloaded");
/** `operation` is the operationId, which the detail spells in words. */
export const internal = (operation: string) => new Problem(500, "internal", "Internal error", {
  detail: `${operation.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)}: unexpected error`,
});

export const success = (headers: Record<string, string> = {}): Answer => ({ status: 200, headers, body: { success: true } });

/** Makes the response. Every one has an id, which errors name as well. */
export function toResponse({ method, url }: Request, { status, headers, cookies = [], body }: Answer): Response {
  const requestId = uuid();
  const all = new Headers({ Vary: "Cookie, Origin" });
  if (new URL(url).pathname.includes("/api/auth/")) all.set("Cache-Control", "no-store");
  if (body instanceof Problem) {
    const { code, message, more } = body;
    all.set("Cache-Control", "no-store");
    body = { error: message, code, requestId, ...more };
  }
  if (body !== undefined) all.set("Content-Type", "application/json");
  for (const [name, value] of Object.entries({ ...headers, "X-Request-Id": requestId })) all.set(name, value);
  for (const cookie of cookies) all.append("Set-Cookie", cookie);
  const text = typeof body === "string" || body === undefined ? body : JSON.stringify(body);
  return new Response(method === "HEAD" ? null : text ?? null, { status, headers: all });
}

/** The response to a problem; whatever else is thrown is a mistake of the mock's own. */
export function refusal(problem: unknown): Answer {
  if (!(problem instanceof Problem)) throw problem;
  return { status: problem.status, headers: problem.headers, body: problem };
}
