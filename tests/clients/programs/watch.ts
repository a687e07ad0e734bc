// How programs follow a list, each with its own call.

/** What a call says of a list. It has the `ETag` of the list that the program knows, if any, and may wait for so many seconds. */
export type List = (etag?: string, wait?: number) => Promise<{ status: number; headers?: Headers; events?: unknown[] }>;

/** Gets a list, asks again while nothing changes, then while somebody else changes it, and tells the statuses and how many events there are. */
export async function watch(list: List, change: () => Promise<unknown>) {
  const first = await list();
  const etag = first.headers?.get("ETag") ?? "";
  const same = await list(etag, 1);
  const [next] = await Promise.all([list(etag, 30), change()]);
  return [first, same, next].map(({ status, events }) => [status, events?.length ?? "none"].join(" "));
}
