/** What a request may have, in the words of the contract (x-message). */
import { malformed, mediaType, tooLarge } from "./answer.js";

/** What is wrong with each bad field. */
export type Fields = Record<string, string>;

export const worldMessage = "must be 1 to 128 characters without control characters, in UTF-8, and not . or ..";
export const keyMessage = "must be 1 to 255 visible ASCII characters";
const nameMessage = "must be 1 to 200 characters, not only white space, without control characters";
const descriptionMessage = "must be 0 to 5000 characters, without control characters other than tab and line breaks";
const instantMessage = "must be an RFC 3339 date-time with Z or an offset up to 14:00, in UTC within the years 1970 to 9999";
const cursorMessage = "must be a cursor from the Link of this world's list";

const maxBody = 64 * 1024; // bytes
const maxDepth = 32; // of nested arrays and objects

/** Reports whether a text has so many characters and no half of a surrogate pair. */
const hasLength = (text: string, least: number, most: number) => {
  const { length } = [...text];
  return length >= least && length <= most && !/\p{Surrogate}/u.test(text);
};

export const isWorld = (id: string | undefined): boolean =>
  id !== undefined && hasLength(id, 1, 128) && !/[\0-\x1F\x7F-\x9F]/.test(id) && id !== "." && id !== "..";

/** Reports whether not all of a text is white space. U+FEFF, which JavaScript's \s has, is none: a byte order mark has always been a name. */
const isVisible = (text: string) => /[^\t-\r\p{Z}]/u.test(text);

export const isKey = (key: string): boolean => /^[!-~]{1,255}$/.test(key);

export const usernameMessage = "a username has 1 to 100 characters, not only white space, without control characters";

/** Reports whether somebody can be called so. */
export const isUsername = (name: string): boolean => hasLength(name, 1, 100) && isVisible(name) && !/[\0-\x1F\x7F-\x9F]/.test(name);

const rules: Record<string, [message: string, fits: (text: string) => boolean]> = {
  name: [nameMessage, (text) => hasLength(text, 1, 200) && isVisible(text) && !/[\0-\x1F\x7F-\x9F]/.test(text)],
  description: [descriptionMessage, (text) => hasLength(text, 0, 5000) && !/[\0-\x08\x0B\x0C\x0E-\x1F\x7F-\x9F]/.test(text)],
  scheduledAt: [instantMessage, (text) => readInstant(text) !== undefined],
};

/** What is wrong with the members of a new event. */
export function eventFields(body: unknown): Fields {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return { body: "must be a JSON object" };
  const fields: Fields = {};
  for (const [name, [message, fits]] of Object.entries(rules)) {
    const value: unknown = Object.hasOwn(body, name) ? (body as Record<string, unknown>)[name] : undefined;
    if (value === undefined) fields[name] = "is required";
    else if (typeof value !== "string" || !fits(value)) fields[name] = message;
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

const isWhole = (text: string, least: number, most: number) => /^[+-]?\d+$/.test(text) && Number(text) >= least && Number(text) <= most;

const parameters: Record<keyof ListQuery, [message: string, fits: (text: string) => boolean]> = {
  from: [instantMessage, (text) => readInstant(text) !== undefined],
  to: [instantMessage, (text) => readInstant(text) !== undefined],
  limit: ["must be a whole number from 1 to 1000", (text) => isWhole(text, 1, 1000)],
  cursor: [cursorMessage, (text) => text !== "" && !text.includes("\uFFFD")],
  wait: ["must be a whole number from 1 to 50", (text) => isWhole(text, 1, 50)],
};

export const cursorFields: Fields = { cursor: cursorMessage };

/** Reads the query of a list, and adds what is wrong with it. */
export function readQuery(search: string, fields: Fields): ListQuery {
  const query: ListQuery = {};
  if (/;|%(?![0-9A-Fa-f]{2})/.test(search)) fields["query"] = "must be percent-encoded";
  else {
    const given = new URLSearchParams(search);
    for (const [name, [message, fits]] of Object.entries(parameters) as [keyof ListQuery, (typeof parameters)["from"]][]) {
      const [value, another] = given.getAll(name);
      if (another !== undefined) fields[name] = "must be given once";
      else if (value !== undefined && fits(value)) query[name] = value;
      else if (value !== undefined) fields[name] = message;
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
