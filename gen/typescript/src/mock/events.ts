/** Events and RSVPs, and who waits for them to change. */
import { keyUsed, noEvent } from "./answer.js";
import { uuid } from "./random.js";
import { eventFields, isUsername, readInstant, usernameMessage, worldFields } from "./rules.js";

/** An event to begin with, or one that somebody else creates. */
export interface NewMockEvent {
  world: string;
  name: string;
  description?: string | undefined;
  /** As in a request, or a `Date`. */
  scheduledAt: string | Date;
  /** Who takes part, in the order of joining. */
  joined?: readonly string[] | undefined;
  /** Its id, for tests that name it. */
  id?: string | undefined;
}

/** An event as it is kept. */
export interface StoredEvent {
  id: string;
  world: string;
  name: string;
  description: string;
  scheduledAt: number;
  joined: Set<string>;
}

export class Events {
  readonly changes = new Changes();
  readonly #events = new Map<string, StoredEvent>();
  /** The event that a user has created with an Idempotency-Key, and from what. */
  readonly #created = new Map<string, { id: string; from: string }>();
  #latest = { milliseconds: 0, sequence: 0 };

  constructor(readonly now: () => number) {}

  /** Creates an event, which the service would take, and returns its id. */
  create({ world, name, description = "", scheduledAt, joined = [], id = this.#newId() }: NewMockEvent): string {
    const text = scheduledAt instanceof Date ? scheduledAt.toISOString() : scheduledAt;
    const fields = { ...worldFields(world), ...eventFields({ name, description, scheduledAt: text }) };
    for (const [field, [, message]] of Object.entries(fields)) throw new TypeError(`${field === "id" ? "world" : field} of an event ${message}`);
    if (!joined.every(isUsername)) throw new TypeError(usernameMessage);
    this.#events.set(id, { id, world, name, description, scheduledAt: readInstant(text)!.milliseconds, joined: new Set(joined) });
    this.changes.tell(world);
    return id;
  }

  /** Creates an event of a user as a request with this Idempotency-Key does: once, as long as the event is there. */
  createOnce(event: NewMockEvent, username: string, key: string): string {
    const name = JSON.stringify([username, key]);
    const from = JSON.stringify([event.world, event.name, event.description, readInstant(`${event.scheduledAt}`)?.milliseconds]);
    const before = this.#created.get(name);
    if (before && this.#events.has(before.id)) {
      if (before.from !== from) throw keyUsed();
      return before.id;
    }
    const id = this.create(event);
    this.#created.set(name, { id, from });
    return id;
  }

  join(id: string, username: string): void {
    const { joined, world } = this.find(id);
    if (joined.has(username)) return;
    joined.add(username);
    this.changes.tell(world);
  }

  leave(id: string, username: string): void {
    const { joined, world } = this.find(id);
    if (joined.delete(username)) this.changes.tell(world);
  }

  remove(id: string): void {
    const { world } = this.find(id);
    this.#events.delete(id);
    this.changes.tell(world);
  }

  /** The events of a world, by their time and then their id. */
  of(world: string): StoredEvent[] {
    return [...this.#events.values()].filter((event) => event.world === world)
      .sort((a, b) => a.scheduledAt - b.scheduledAt || (a.id < b.id ? -1 : 1));
  }

  find(id: string): StoredEvent {
    const event = this.#events.get(id);
    if (!event) throw noEvent();
    return event;
  }

  /** A UUIDv7 that is greater than the one before. */
  #newId(): string {
    const now = this.now();
    const { milliseconds, sequence } = this.#latest;
    this.#latest = now > milliseconds ? { milliseconds: now, sequence: 0 }
      : sequence < 0xfff ? { milliseconds, sequence: sequence + 1 } : { milliseconds: milliseconds + 1, sequence: 0 };
    const digits = (value: number, count: number) => Math.trunc(value).toString(16).padStart(count, "0");
    return uuid(digits(this.#latest.milliseconds, 12) + digits(this.#latest.sequence, 3));
  }
}

/** Why a wait has ended. */
export type Ending = "changed" | "elapsed" | "stopped" | "gone";

/** Wakes those who wait for the list of a world to change. */
export class Changes {
  readonly #waiting = new Map<(why: Ending) => void, string>();

  /** A world has changed. */
  tell(world: string): void {
    for (const [wake, watched] of this.#waiting) if (world === watched) wake("changed");
  }

  /** Ends all waits. */
  stop(): void {
    for (const wake of this.#waiting.keys()) wake("stopped");
  }

  async wait(world: string, milliseconds: number, signal: AbortSignal): Promise<Ending> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let wake: (why: Ending) => void = () => {};
    const gone = () => wake("gone");
    const ended = new Promise<Ending>((resolve) => {
      wake = resolve;
      this.#waiting.set(resolve, world);
      timer = setTimeout(() => resolve("elapsed"), milliseconds);
      if (signal.aborted) resolve("gone");
      signal.addEventListener("abort", gone);
    });
    try {
      return await ended;
    } finally {
      this.#waiting.delete(wake);
      clearTimeout(timer);
      signal.removeEventListener("abort", gone);
    }
  }
}
