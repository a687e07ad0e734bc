/**
 * T with undefined as a value of whatever may be left out, in its `query` and `headers`, too. With `exactOptionalPropertyTypes` a program could
 * not hand over otherwise what it may not have.
 */
export type OrUndefined<T> = {
  [K in keyof T]: (K extends "query" | "headers" ? Inside<T[K]> : T[K]) | ({} extends Pick<T, K> ? undefined : never);
};

type Inside<T> = T extends Headers | unknown[] ? T : OrUndefined<T>;
