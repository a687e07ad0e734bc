/** The two cookies: what a request sends of them, and the browser's jar, whose httpOnly cookies no script can have. */
import type { Issued } from "./sessions.js";

const names = ["token", "refreshToken"] as const;

/** How the service sets its cookies in development: for 30 days since the last refresh. */
const attributes = (maxAge: number) => `; Path=/; Max-Age=${maxAge}; HttpOnly; SameSite=Lax`;

export const setCookies = ({ token, refreshToken }: Pick<Issued, "token" | "refreshToken">): string[] =>
  [`token=${token}${attributes(30 * 24 * 3600)}`, `refreshToken=${refreshToken}${attributes(30 * 24 * 3600)}`];
export const clearCookies = (): string[] => names.map((name) => `${name}=${attributes(0)}`);

/** The distinct values that a header `Cookie` has of a cookie. The service believes none of several. */
export function valuesOf(header: string, name: (typeof names)[number]): string[] {
  const values = new Set<string>();
  for (const pair of header.split(";")) {
    const [, key, value] = /^[ \t]*([^=]*)=(.*?)[ \t]*$/s.exec(pair) ?? [];
    if (key === name) values.add(value!);
  }
  return [...values];
}

/**
 * The browser's part. MSW 2 has a cookie store, too, but that takes one cookie of a response, sends what it has with
 * `credentials: "omit"` as well, and outlives a test.
 */
export class Jar {
  #values = new Map<string, string>();

  keep(session: Issued): void {
    this.store(setCookies(session));
  }

  /** Obeys the lines of Set-Cookie. */
  store(lines: string[]): void {
    for (const line of lines) {
      const [, name, value] = /^([^=]*)=([^;]*)/.exec(line)!;
      if (value) this.#values.set(name!, value);
      else this.#values.delete(name!);
    }
  }

  refreshTokens(): string[] {
    const token = this.#values.get("refreshToken");
    return token ? [token] : [];
  }

  /**
   * The header `Cookie` of a request, and whether the jar keeps what the response sets. A request that brings cookies of the session
   * itself, as a server's do, is another browser's.
   */
  of(request: Request): { header: string; kept: boolean } {
    const own = request.headers.get("Cookie") ?? "";
    if (names.some((name) => valuesOf(own, name).length > 0) || !sendsCookies(request)) return { header: own, kept: false };
    return { header: [...this.#values].map((pair) => pair.join("=")).join("; "), kept: true };
  }
}

/** Reports whether a browser would send its cookies with a request. Where there is no page no request is of its origin. */
function sendsCookies({ credentials, url }: Request): boolean {
  return credentials === "include" || (credentials === "same-origin" && globalThis.location?.origin === new URL(url).origin);
}
