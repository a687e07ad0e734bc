/** What a request may have, in the words of the contract (x-message). */
import { limits } from "../limits.js";
import { type Fields, malformed, mediaType, tooLarge } from "./answer.js";

const worldMessage = "must be 1 to 128 characters without control characters, in UTF-8, and not . or ..";
const keyMessage = "must be 1 to 255 visible ASCII characters";
const nameMessage = "must be 1 to 200 characters, not only white space, without control characters";
const descriptionMessage = "must be 0 to 5000 characters, without control characters other than tab and line breaks";
const instantMessage = "must be an RFC 3339 date-time with Z or an offset up to 14:00, in UTC within the years 1970 to 9999";
const cursorMessage = "must be a cursor from the Link of this world's list";

const maxBody = 64 * 1024; // bytes
const maxDepth = 32; // of nested arrays and objects

/** The keyword of JSON Schema that refuses a value, undefined for none; of several, the first in the order of the contract. */
type Check = (value: unknown) => string | undefined;

/** Checks a text, which has no half of a surrogate pair. */
const textOf = ({ minLength = 0, maxLength }: { minLength?: number; maxLength?: number }, pattern = (_: string) => true): Check => (value) => {
  if (typeof value !== "string" || /\p{Surrogate}/u.test(value)) return "type";
  const { length } = [...value];
  if (length < minLength) return "minLength";
  if (maxLength !== undefined && length > maxLength) return "maxLength";
  return pattern(value) ? undefined : "pattern";
};

/** Checks a whole number that is written in a query. */
const wholeOf = ({ minimum, maximum }: { minimum: number; maximum: number }): Check => (value) => {
  if (!/^[+-]?\d+$/.test(value as string)) return "type";
  return Number(value) < minimum ? "minimum" : Number(value) > maximum ? "maximum" : undefined;
};

const instant: Check = (value) => (typeof value !== "string" ? "type" : readInstant(value) ? undefined : "format");

const isPlain = (value: string) => !/[\0-\x1F\x7F-\x9F]/.test(value);

/** Reports whether not all of a text is white space. U+FEFF, which JavaScript's \s has, is none: a byte order mark has always been a name. */
const isVisible = (text: string) => /[^\t-\r\p{Z}]/u.test(text);

const checkWorld = textOf(limits.worldId, isPlain);
const checkKey = textOf(limits.idempotencyKey, (key) => /^[!-~]*$/.test(key));

/** What is wrong with a world's id, which is undefined if it cannot be decoded. */
export function worldFields(id: string | undefined): Fields {
  const code = id === undefined ? "format" : id === "." || id === ".." ? "not" : checkWorld(id);
  return code ? { id: [code, worldMessage] } : {};
}

/** What is wrong with an Idempotency-Key, of which there may be none. */
export function keyFields(key: string | null): Fields {
  const code = key === null ? undefined : checkKey(key);
  return code ? { "Idempotency-Key": [code, keyMessage] } : {};
}

export const usernameMessage = "a username has 1 to 100 characters, not only white space, without control characters";

/** Reports whether somebody can be called so. */
export const isUsername = (name: string): boolean => !textOf(limits.username, (name) => isVisible(name) && isPlain(name))(name);

const rules: Record<string, [message: string, check: Check]> = {
  name: [nameMessage, textOf(limits.name, (name) => isVisible(name) && isPlain(name))],
  description: [descriptionMessage, textOf(limits.description, (words) => !/[\0-\x08\x0B\x0C\x0E-\x1F\x7F-\x9F]/.test(words))],
  scheduledAt: [instantMessage, instant],
};

/** What is wrong with the members of a new event. */
export function eventFields(body: unknown): Fields {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return { body: ["type", "must be a JSON object"] };
  const fields: Fields = {};
  for (const [name, [message, check]] of Object.entries(rules)) {
    const value: unknown = Object.hasOwn(body, name) ? (body as Record<string, unknown>)[name] : undefined;
    const code = check(value);
    if (value === undefined) fields[name] = ["required", "is required"];
    else if (code) fields[name] = [code, message];
  }
  return fields;
}

/** An instant: its millisecond, cut off, and whether there were digits beyond. */
export interface Instant {
  milliseconds: number;
  beyond: boolean;
}

/** Reads RFC 3339 as the service does. Undefined for a text that does not fit. */
export function readInstant(text: string): Instant | undefined {
  const [, day, time, fraction = "", zone = "", sign, hours, minutes] =
    /^(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|([+-])(\d\d):(\d\d))$/.exec(text) ?? [];
  const second = Date.parse(`${day}T${time}Z`);
  // Date.parse takes the 30th of February, and 24 o'clock.
  if (Number.isNaN(second) || new Date(second).toISOString() !== `${day}T${time}.000Z`) return undefined;
  if (sign && (zone.slice(1) > "14:00" || minutes! > "59")) return undefined;
  const offset = sign ? Number(`${sign}1`) * (Number(hours) * 60 + Number(minutes)) * 60_000 : 0;
  const milliseconds = second - offset + Number(fraction.slice(1, 4).padEnd(3, "0"));
  if (milliseconds < 0 || milliseconds > 253_402_300_799_999) return undefined;
  return { milliseconds, beyond: /[1-9]/.test(fraction.slice(4)) };
}

/** What a list is asked for with. Texts are as they were given: Link repeats them. */
export interface ListQuery {
  from?: string;
  to?: string;
  limit?: string;
  cursor?: string;
  wait?: string;
}

const parameters: Record<keyof ListQuery, [message: string, check: Check]> = {
  from: [instantMessage, instant],
  to: [instantMessage, instant],
  limit: ["must be a whole number from 1 to 1000", wholeOf(limits.limit)],
  cursor: [cursorMessage, (value) => textOf(limits.cursor)(value) ?? ((value as string).includes("\uFFFD") ? "format" : undefined)],
  wait: ["must be a whole number from 1 to 50", wholeOf(limits.wait)],
};

export const cursorFields: Fields = { cursor: ["cursor", cursorMessage] };

/** Reads the query of a list, and adds what is wrong with it. */
export function readQuery(search: string, fields: Fields): ListQuery {
  const query: ListQuery = {};
  if (/;|%(?![0-9A-Fa-f]{2})/.test(search)) fields["query"] = ["format", "must be percent-encoded"];
  else {
    const given = new URLSearchParams(search);
    for (const [name, [message, check]] of Object.entries(parameters) as [keyof ListQuery, (typeof parameters)["from"]][]) {
      const [value, another] = given.getAll(name);
      if (value === undefined) continue;
      const code = another === undefined ? check(value) : "repeated";
      if (code) fields[name] = [code, code === "repeated" ? "must be given once" : message];
      else query[name] = value;
    }
  }
  return query;
}

/** Reads a body that the operation does not have, and means nothing. One of more than 64 KiB is refused. */
export async function drain(request: Request): Promise<void> {
  if ((await request.arrayBuffer()).byteLength > maxBody) throw tooLarge();
}

/** Reads a JSON body. */
export async function readBody(request: Request): Promise<unknown> {
  if (!isJSON(request.headers)) throw mediaType();
  const bytes = await request.arrayBuffer();
  if (bytes.byteLength > maxBody) throw tooLarge();
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    const body: unknown = JSON.parse(text);
    if (isStrict(text)) return body;
  } catch {
    // It is no UTF-8, or no JSON.
  }
  throw malformed();
}

/** Reports whether a body is declared as application/json in UTF-8. */
function isJSON(headers: Headers): boolean {
  const [type = "", ...rest] = (headers.get("Content-Type") ?? "").split(";").map((part) => part.trim().toLowerCase());
  const charset = rest.find((part) => part.startsWith("charset="))?.slice("charset=".length).replace(/^"(.*)"$/, "$1");
  return type === "application/json" && !headers.has("Content-Encoding") && (charset === undefined || /^utf-?8$/.test(charset));
}

/** Reports whether no object of a JSON text has a name twice, and nothing is nested too deep. */
function isStrict(text: string): boolean {
  const open: (Set<string> | undefined)[] = []; // the names of each object that is open; arrays have none
  for (const [token, string, colon] of text.matchAll(/("(?:[^"\\]|\\.)*")(\s*:)?|[[\]{}]/g)) {
    const names = open.at(-1);
    if (token === "}" || token === "]") open.pop();
    else if (!string) open.push(token === "{" ? new Set() : undefined);
    else if (colon && names) {
      const name = JSON.parse(string) as string;
      if (names.has(name)) return false;
      names.add(name);
    }
    if (open.length > maxDepth) return false;
  }
  return true;
}
