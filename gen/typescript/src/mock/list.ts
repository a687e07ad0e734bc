/** A world's list as a response: the part that was asked for, its pages, and its ETag. */
import type { EventList } from "../api/index.js";
import { invalid } from "./answer.js";
import type { StoredEvent } from "./events.js";
import { uuid } from "./random.js";
import { cursorFields, type ListQuery, readInstant } from "./rules.js";

/** A list, and the page after it. */
export interface Page {
  json: string;
  link: string | undefined;
  etag: string;
}

/** Events as the contract has them. */
export const listOf = (events: StoredEvent[]): EventList => ({
  events: events.map(({ id, name, description, scheduledAt, joined }) => ({
    id, name, description, scheduledAt: new Date(scheduledAt).toISOString(), RSVPs: [...joined].map((username) => ({ user: { username } })),
  })),
});

/** What ETags stand for. Where two lists are the same their ETags are, too. */
export class ETags {
  readonly #known = new Map<string, string>();

  of(link: string | undefined, json: string): string {
    const key = `${link ?? ""}\n${json}`;
    const etag = this.#known.get(key) ?? `W/"${uuid()}"`;
    this.#known.set(key, etag);
    return etag;
  }
}

/** The list of a world that a query asks for. Links begin with base. It throws for a cursor that is not one of this world. */
export function pageOf(world: string, events: StoredEvent[], query: ListQuery, base: string, etags: ETags): Page {
  const from = bound(query.from) ?? -Infinity;
  const to = bound(query.to) ?? Infinity;
  const after = query.cursor === undefined ? undefined : readCursor(world, query.cursor);
  const limit = query.limit === undefined ? Infinity : Number(query.limit);
  const found = events.filter(({ scheduledAt, id }) => scheduledAt >= from && scheduledAt < to &&
    (!after || scheduledAt > after[0] || (scheduledAt === after[0] && id > after[1])));
  const page = found.slice(0, limit);
  const json = JSON.stringify(listOf(page));
  const link = found.length > page.length ? nextLink(world, page.at(-1)!, query, base) : undefined;
  return { json, link, etag: etags.of(link, json) };
}

/** The millisecond of a bound: digits beyond it are rounded up. */
function bound(text: string | undefined): number | undefined {
  const instant = text === undefined ? undefined : readInstant(text);
  return instant && instant.milliseconds + Number(instant.beyond);
}

function nextLink(world: string, last: StoredEvent, query: ListQuery, base: string): string {
  const repeated = (["from", "to", "limit"] as const).map((name) => query[name] ? `${name}=${encodeURIComponent(query[name])}&` : "").join("");
  return `<${base}/api/event/${escapePath(world)}?${repeated}cursor=${writeCursor(world, last)}>; rel="next"`;
}

/** Escapes a segment of a path, or a username, as the service does with Go's net/url. */
export const escapePath = (text: string): string => encodeURIComponent(text)
  .replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`)
  .replace(/%(24|26|2B|3D|3A|40)/g, decodeURIComponent);

/** A cursor: where a page ends, and in which world, in base64url. */
const writeCursor = (world: string, { scheduledAt, id }: Pick<StoredEvent, "scheduledAt" | "id">) =>
  btoa(encodeURIComponent(JSON.stringify([world, scheduledAt, id]))).replace(/[+/=]/g, (c) => ({ "+": "-", "/": "_" })[c] ?? "");

function readCursor(world: string, cursor: string): [scheduledAt: number, id: string] {
  try {
    const [, scheduledAt, id] = JSON.parse(decodeURIComponent(atob(cursor.replace(/[-_]/g, (c) => (c === "-" ? "+" : "/"))))) as [string, number, string];
    if (writeCursor(world, { scheduledAt, id }) === cursor) return [scheduledAt, id];
  } catch {
    // It was not made here.
  }
  throw invalid(cursorFields);
}

/** Whether If-None-Match names the ETag, compared weakly; with more than 16 tags the header counts as absent (as the service does). */
export function isUnchanged(ifNoneMatch: string[], etag: string): boolean {
  return ifNoneMatch.some((tag) => tag === "*" || opaque(tag) === opaque(etag));
}

export function tagsOf(headers: Headers): string[] {
  const tags = (headers.get("If-None-Match") ?? "").split(",").map((tag) => tag.trim());
  return tags.length > 16 ? [] : tags;
}

/** Whether a watch may wait: not for `*`, nor without tags. */
export const mayWait = (tags: string[]): boolean => !tags.includes("*") && tags.some((tag) => /^".+"$/s.test(opaque(tag)));

const opaque = (tag: string) => tag.replace(/^W\//, "");
