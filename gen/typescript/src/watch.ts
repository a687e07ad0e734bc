/** Lists that stay up to date while somebody looks: one waiting call for all tabs of a browser that show a list. */
import { client as defaultClient } from "./api/client.gen.js";
import { listEvents, type ListEventsData, type Options } from "./api/index.js";
import { CallError, type Fault, isFinal, retryAfter } from "./errors.js";
import { listOf, reading, type TaggedList } from "./events.js";
import { inBrowser, onSessionChange, onWrite, sleep, tabLocks, unlessAborted } from "./session.js";

/** How long a call waits for news, in seconds: less than the 30 after which many proxies cut a silent response. */
const usualWait = 25;
/** The shortest such wait that is tried where a proxy ends longer ones, in seconds. */
const minWait = 5;
/** How often, in milliseconds, a list is asked for that may not wait. */
const pollInterval = 5_000;
/** How many calls may wait for all tabs: over HTTP/1.1 a browser has six connections to an origin. */
const maxWaiting = 2;
/** How often tabs look after each other, and how long the leading one may be silent before another takes over. */
const tickInterval = 2_000;
const maxSilence = 5_000;

/** The list to watch: what `listEvents` takes. */
export interface WatchOptions extends Pick<Options<ListEventsData>, "client" | "path"> {
  query?: Omit<NonNullable<Options<ListEventsData>["query"]>, "wait"> | undefined;
  /**
   * The list, from `listOf`, where it has just been read. The watch then counts as live from the beginning, and waits for what changes
   * instead of reading the list once more.
   */
  known?: TaggedList | undefined;
  /**
   * How many seconds, 1 to 50, a call waits for news: 25 unless it is given. Where a proxy ends calls that are silent for less, the watch finds that
   * out by itself, and waits for half as long.
   */
  waitSeconds?: number | undefined;
}

/** How a watch is doing. */
export interface LiveStatus {
  /**
   * `live`: the latest list is shown. `connecting`: it has been asked for; so it is, too, while the tab is hidden. `offline`: the last
   * call has failed and is tried again. `ended`: it will not be tried again.
   */
  status: "live" | "connecting" | "offline" | "ended";
  /** Since when it is so. */
  since: Date;
  /** Why it is offline or ended. */
  error: Fault | undefined;
}

/** What to do with the lists. */
export interface Watcher {
  /** Called with the list, unless it is the one that is known, and with each new one; and when that was asked for, in milliseconds since 1970. */
  onList: (list: TaggedList, asked: number) => void;
  /**
   * Called when a call fails, in the tab that has made it. The watch goes on by itself, unless it has ended: the service has
   * said that the user has to sign in or is kept out of the world (`forbidden`), or that there can be no such list.
   */
  onError?: ((error: Fault, ended: boolean) => void) | undefined;
  /** Called with how the watch is doing, at first and whenever that changes, in every tab. */
  onStatus?: ((live: LiveStatus) => void) | undefined;
  /** Ends the watch. */
  signal?: AbortSignal | undefined;
}

/**
 * Watches a list until the function that it returns is called: `onList` is called with the list, and with each new one as
 * soon as it has changed. Lists in between may be left out, the latest never.
 *
 * Of all tabs that show a list one waits for news and tells the others, until it is closed, hidden or frozen. Two lists
 * wait at a time; further ones are asked for every 5 seconds, as is any where there are no Web Locks (plain http, other
 * than localhost). A tab that is hidden pauses.
 */
export function watchEvents(options: WatchOptions, { onList, onError, onStatus, signal }: Watcher): () => void {
  const { client = defaultClient, path, query, known, waitSeconds = usualWait } = options;
  const url = client.buildUrl({ url: "/api/event/{id}", path, query });
  const name = `worldevents ${url}`;
  const inPage = "document" in globalThis;
  const locks = tabLocks();
  const end = new AbortController();
  let run: AbortController | undefined;
  let list = known;
  let asked = 0; // when the list was
  let version = known?.etag ?? ""; // of list, the same in all tabs
  let term = 0; // of the leading tab: each one's is higher than the last one's
  let fresh = !!version; // whether the leading tab, this one, has asked for the list, or who began the watch just has
  let askSoon = () => {}; // ends the pause between two calls that do not wait
  let live: LiveStatus | undefined;

  /** Says how the watch is doing. Returns whether that is new. */
  function report(status: LiveStatus["status"], error?: Fault, since = new Date()): boolean {
    const same = status === live?.status;
    if (end.signal.aborted || (same && `${error}` === `${live!.error}`)) return false;
    const next = live = { status, since: same ? live!.since : since, error };
    queueMicrotask(() => (status === "ended" || !end.signal.aborted) && onStatus?.(next));
    return true;
  }

  /** Takes a list, and reports whether it is a new one. */
  function take(next: TaggedList, began: number): boolean {
    const same = list && (list.etag && next.etag ? list.etag === next.etag : JSON.stringify(list.events) === JSON.stringify(next.events));
    list = next;
    asked = began;
    if (same) return false;
    // In a task of its own: what the callback throws is the page's error, and must not end the watch.
    queueMicrotask(() => end.signal.aborted || onList(next, began));
    return true;
  }

  /** Takes part until `signal`: follows the tab that leads, and leads when there is none or when it is silent. */
  async function takePart(signal: AbortSignal): Promise<void> {
    if (!locks) {
      const unsubscribe = onWrite(() => askSoon(), client);
      signal.addEventListener("abort", unsubscribe);
      return lead(signal, () => {});
    }
    const channel = new BroadcastChannel(name);
    let leading = false;
    let heard = Date.now();
    let ticked = heard;
    const tell = (told?: Told) => {
      const { status, message, code, fields, fieldCodes } = live!.error ?? {};
      const error = message && { status, error: message, code, fields, fieldCodes }; // An error itself need not survive the way.
      if (!signal.aborted) channel.postMessage({ term, version, live: { ...live!, error }, ...told } satisfies Told);
    };
    const begin = (lock: LockOptions) => hold(name, lock, signal, restart).then((held) => {
      if (!held || leading || signal.aborted) return;
      leading = true;
      term = Math.max(Date.now(), term + 1);
      tell();
      return lead(signal, tell);
    }).catch(() => {
      // It has stopped to take part, or this is a page that may not have locks.
      if (!leading && !signal.aborted) return lead(signal, tell);
    });
    const tick = () => {
      const now = Date.now();
      if (now - ticked > 3 * maxSilence) return restart(); // The machine has slept, and connections may be dead.
      ticked = now;
      if (!leading && now - heard > maxSilence) void begin({ steal: true });
      else if (!leading) channel.postMessage({ version } satisfies Told);
    };

    channel.onmessage = ({ data }: MessageEvent<Told | null>) => {
      if (!data) return; // Anything on this origin can send here.
      if (!data.term) {
        if (data.wrote) askSoon();
        if (leading) tell(fresh && data.version !== version ? { list, asked } : undefined);
      } else if (data.term >= term) {
        term = data.term;
        heard = Date.now();
        fresh = false;
        if (data.list) {
          take(data.list, data.asked!);
          version = data.version!;
        }
        const { status, since, error } = data.live ?? {};
        if (status && (list || status !== "live")) {
          report(status, error && (error.status ? new CallError(error.status, error) : new Error(error.error)), since);
        }
      }
    };
    channel.postMessage({ version } satisfies Told);
    const timer = setInterval(tick, tickInterval);
    const unsubscribe = onWrite(() => leading ? askSoon() : channel.postMessage({ version, wrote: true } satisfies Told), client);
    signal.addEventListener("abort", () => {
      unsubscribe();
      clearInterval(timer);
      channel.close();
    });
    await begin({ signal });
  }

  /** Asks for the list until `signal`, and tells the other tabs. */
  async function lead(signal: AbortSignal, tell: (told?: Told) => void): Promise<void> {
    let mayWait = !locks && !inPage;
    let wait = waitSeconds;
    let cut = false; // whether the last call was a wait that somebody has ended
    let [early, failures] = [0, 0];
    if (fresh && report("live")) tell();
    while (!signal.aborted) {
      for (let i = 0; locks && !mayWait && i < maxWaiting; i++) {
        mayWait = await hold(`worldevents wait ${i} ${new URL(url).origin}`, { ifAvailable: true }, signal).catch(() => false);
      }
      if (signal.aborted) return;
      // Where the list is not known to be the latest, the first call does not wait: another tab may want it now.
      const patient = mayWait && wait >= Math.min(waitSeconds, minWait);
      const waits = patient && fresh && !!list?.etag;
      const began = Date.now();
      let pause = 0;
      let wrote = false; // since it was asked
      askSoon = () => (wrote = true);
      try {
        const response = await call(waits ? wait : undefined, signal);
        failures = 0;
        if (cut) wait = Math.floor(wait / 2);
        cut = false;
        const changed = response.list && take(response.list, began);
        if (changed) version = list!.etag ?? `${term} ${began}`;
        if (report("live") || changed || !fresh) tell({ list, asked });
        fresh = true;
        const soon = Date.now() - began < (changed ? 100 : 1_000);
        early = waits && soon ? early + 1 : 0;
        if (response.retryAfter !== undefined) pause = Math.max(response.retryAfter, 1) * 1_000 * (1 + Math.random());
        else if (!patient || !list?.etag) pause = pollInterval;
        else if (early) pause = Math.min(pollInterval, 125 * 2 ** early); // The service does not wait.
      } catch (error) {
        if (signal.aborted) return;
        const fault = error as Fault;
        const { status = 0, code, retryAfter = 0 } = fault;
        // Somebody between here and the service may have ended the wait: that is no failure unless the next call, which does not wait, fails, too.
        cut = waits && !code && fault.name !== "TimeoutError" && Date.now() - began > 1_000;
        fresh &&= !cut;
        if (cut) continue;
        const ended = isFinal(status, code);
        report(ended ? "ended" : "offline", fault);
        if (ended) stop();
        tell();
        queueMicrotask(() => onError?.(fault, ended));
        pause = retryAfter * 1_000 + Math.min(30_000, 500 * 2 ** failures++) * (0.5 + Math.random() / 2);
      }
      // A write that has succeeded shows that the service is there.
      const written = new Promise<void>((soon) => wrote ? soon() : (askSoon = soon)).then(() => void (failures = 0));
      if (pause) await Promise.race([sleep(pause, signal), written]);
    }
  }

  /** Asks once. The browser's HTTP cache would let one of several equal calls through at a time. */
  async function call(wait: number | undefined, signal: AbortSignal) {
    const { data, error, response } = await reading(client, Math.max(waitSeconds, usualWait) + 10, signal, (limits) => listEvents({
      client, path, query: wait ? { ...query, wait } : query, ...limits,
      cache: "no-store", headers: list?.etag ? { "If-None-Match": list.etag } : {}, throwOnError: false,
    }));
    // Without a response the call was not made: the id is one that no browser can ask for.
    const { status, headers } = response ?? new Response(null, { status: 400 });
    if (!data && status !== 304) throw new CallError(status, error, headers);
    return data ? { list: listOf({ data, response }) } : { retryAfter: retryAfter(headers) };
  }

  function pause(): void {
    report("connecting");
    fresh = false;
    run?.abort();
    run = undefined;
  }

  function restart(): void {
    pause();
    review();
  }

  /** Takes part while somebody can see the page, and anew after something that may have cut connections. */
  function review(event?: Event): void {
    const away = event?.type === "freeze" || event?.type === "pagehide";
    if (end.signal.aborted || away || (inPage && document.hidden)) return pause();
    if (event?.type === "online") pause();
    if (run) return;
    run = new AbortController();
    takePart(run.signal).catch(() => {}); // It has stopped to take part.
  }

  function stop(): void {
    end.abort();
    pause();
    unsubscribe();
  }

  const unsubscribe = onSessionChange(restart, { client });
  for (const type of inBrowser() ? ["visibilitychange", "freeze", "resume", "pagehide", "pageshow", "online"] : []) {
    globalThis.addEventListener?.(type, review, { capture: true, signal: end.signal }); // workerd takes no capture
  }
  signal?.addEventListener("abort", stop, { signal: end.signal });
  report("connecting");
  if (signal?.aborted) stop();
  else review();
  return stop;
}

/**
 * The list, unless it is known, and each new one as soon as it has changed, as `watchEvents` has them, with the same `onStatus`. It ends with
 * `signal`, and throws what ends the watch.
 */
export async function* eventLists(
  { signal, onStatus, ...options }: WatchOptions & Pick<Watcher, "onStatus" | "signal">,
): AsyncGenerator<TaggedList, void, undefined> {
  let latest: TaggedList | undefined;
  let failure: Fault | undefined;
  let wake = (_news: TaggedList | Fault) => {};
  const stop = watchEvents(options, {
    signal,
    onStatus,
    onList: (list) => wake(latest = list),
    onError: (error, ended) => ended && wake(failure = error),
  });
  try {
    while (!signal?.aborted) {
      const list = latest;
      latest = undefined;
      if (list) yield list;
      else if (failure) throw failure;
      else await unlessAborted(new Promise<void>((resolve) => (wake = () => resolve())), signal).catch(() => {});
    }
  } finally {
    stop();
  }
}

/** What tabs tell each other. Without a term it is a question: the leading tab says that it lives, and what is new. */
interface Told {
  term?: number;
  version?: string;
  /** This tab has joined, left or created: the list may have changed. */
  wrote?: boolean;
  /** How the leading tab is doing: what its followers show. */
  live?: Omit<LiveStatus, "error"> & { error?: any };
  list?: TaggedList | undefined;
  /** When the list was asked for. */
  asked?: number;
}

/** Takes a lock and holds it until `until`. Reports whether it was to be had; calls `lost` if another tab steals it. */
function hold(name: string, options: LockOptions, until: AbortSignal, lost = () => {}): Promise<boolean> {
  return new Promise((resolve, reject) => {
    let granted = false;
    navigator.locks.request(name, options, (lock) => {
      granted = !!lock;
      resolve(granted);
      if (lock && !until.aborted) return new Promise<void>((release) => until.addEventListener("abort", () => release()));
    }).catch((error: unknown) => {
      reject(error);
      if (granted && !until.aborted) lost();
    });
  });
}
