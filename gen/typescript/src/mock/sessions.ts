/** Sessions by the service's rules: one current refresh token each, of which one use wins, and what a spent one does (RFC 9700 section 4.14.2). */
import { randomHex } from "./random.js";
import { isUsername, usernameMessage } from "./rules.js";

const minute = 60_000;
const tokenTTL = 15 * minute;
const refreshTTL = 30 * 24 * 60 * minute;
/** For how long a refresh token that was just spent may come back without harm, and how many are remembered. */
const reuseLeeway = minute;
const maxSpent = 16;
/** How many characters all refresh tokens of a session begin with. */
const handleLength = 32;

/** A session that has begun or was refreshed, with its cookies. The mock's `token` means nothing to anybody else. */
export interface Issued {
  username: string;
  token: string;
  refreshToken: string;
  /** When the token does. */
  expires: Date;
}

/** What one sign-in began. */
export interface Session {
  readonly username: string;
  /** The current refresh token; none after a revocation, or a newer sign-in. */
  current: string | undefined;
  spent: { token: string; at: number }[];
  refreshedAt: number;
  revoked: boolean;
}

/** What a token says. */
export interface Claims {
  session: Session;
  expires: number;
}

export class Sessions {
  /** By the handle of their refresh tokens, the one refreshed last at the end. */
  readonly #sessions = new Map<string, Session>();
  readonly #tokens = new Map<string, Claims>();

  constructor(readonly now: () => number, readonly perUser: number) {}

  /**
   * Begins a session of a user. Those of the same browser lose their refresh token, as do those beyond the limit that were refreshed
   * longest ago; their JWTs live on.
   */
  begin(username: string, replaced: string[] = []): Issued {
    if (!isUsername(username)) throw new TypeError(usernameMessage);
    const now = this.now();
    for (const token of replaced) this.#forget(this.#sessions.get(token.slice(0, handleLength)));
    const fresh = ({ refreshedAt }: Session) => refreshedAt + refreshTTL > now;
    const others = [...this.#sessions.values()].filter((other) => other.username === username && other.current).reverse()
      .sort((a, b) => Number(fresh(b)) - Number(fresh(a)) || b.refreshedAt - a.refreshedAt);
    for (const other of others.slice(this.perUser - 1)) this.#forget(other);
    const handle = randomHex(handleLength);
    const session: Session = { username, current: undefined, spent: [], refreshedAt: now, revoked: false };
    this.#sessions.set(handle, session);
    return this.#issue(session, handle);
  }

  /** What a token says, and whether its age is a fault, which is then its only one. Undefined for an invalid one. */
  verify(token: string): (Claims & { expired: boolean }) | undefined {
    const claims = this.#tokens.get(token);
    return claims && { ...claims, expired: claims.expires <= this.now() };
  }

  /** Replaces a refresh token, which must be that of a session if one is given. Undefined for one that is refused. */
  refresh(token: string, of?: Session): Issued | undefined {
    const now = this.now();
    const handle = token.slice(0, handleLength);
    const session = this.#sessions.get(handle);
    if (!session?.current || session.refreshedAt + refreshTTL <= now || (of && of !== session)) return undefined;
    if (session.current !== token) {
      const spent = session.spent.find((spent) => spent.token === token);
      if (!spent || spent.at <= now - reuseLeeway) this.#revoke([session]); // somebody has a copy
      return undefined;
    }
    const before = session.refreshedAt > now - reuseLeeway ? session.spent : [];
    session.spent = [{ token, at: now }, ...before].slice(0, maxSpent);
    session.refreshedAt = now;
    this.#sessions.delete(handle);
    this.#sessions.set(handle, session);
    return this.#issue(session, handle);
  }

  /** Does what a sign-out does with these cookies. */
  signOut(refreshTokens: string[], tokens: string[], everywhere: boolean): void {
    const sent = refreshTokens.flatMap((token) => this.#sessions.get(token.slice(0, handleLength)) ?? []);
    const named = tokens.flatMap((token) => this.verify(token) ?? []);
    if (everywhere) {
      const current = sent.filter((session) => refreshTokens.includes(session.current!) && session.refreshedAt + refreshTTL > this.now());
      const live = [...current, ...named.filter(({ expired, session }) => !expired && !session.revoked).map(({ session }) => session)];
      for (const { username } of live) this.revokeUser(username);
    }
    this.#revoke(sent.length > 0 ? sent : named.map(({ session }) => session));
  }

  revokeUser(username: string): void {
    this.#revoke([...this.#sessions.values()].filter((session) => session.username === username));
  }

  expireTokens(): void {
    for (const claims of this.#tokens.values()) claims.expires = Math.min(claims.expires, this.now());
  }

  #issue(session: Session, handle: string): Issued {
    const now = this.now();
    const expires = now - (now % 1000) + tokenTTL;
    const token = `mock.${randomHex(64)}`;
    this.#tokens.set(token, { session, expires });
    session.current = handle + randomHex(128 - handleLength);
    return { username: session.username, token, refreshToken: session.current, expires: new Date(expires) };
  }

  /** Takes the refresh token of a session, and those spent with it. */
  #forget(session: Session | undefined): void {
    if (session?.current) Object.assign(session, { current: undefined, spent: [] });
  }

  #revoke(sessions: Session[]): void {
    for (const session of sessions) Object.assign(session, { revoked: true, current: undefined, spent: [] });
  }
}

/** Reports whether a text can be a refresh token. */
export const isRefreshToken = (text: string): boolean => /^[0-9a-f]{128}$/.test(text);
