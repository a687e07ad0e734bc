// Package session issues and verifies the two tokens of a session, and reads and writes their cookies, without the database or the
// configuration. The store keeps hashes of refresh tokens, and decides which are current.
//
// The token is a JWT that lives 15 minutes. golang-jwt verifies only its form and signature; Verify checks the claims. ErrExpired means
// that the JWT is otherwise valid, because a refresh fixes only age. A verified signature is remembered, but dates are checked on every
// use. The refresh token is random and works once:
//
//	0                            32                                                              128 hexadecimal digits
//	| handle: stays the same     | fresh with each refresh                                        |
//	'--- SHA-256: which session  '                                                                '
//	'--- SHA-256 of all: the current token, or a spent one ---------------------------------------'
//
//	issued  -- refresh -->  spent, may come back for the leeway  -->  spent: the session is revoked if it comes back
//
// Of concurrent refreshes one wins. The others get 400 and no cookie: the browser already has the winner's cookies, and a tab that lost
// asks GET /api/auth/session again. That operation ignores revocation; every event operation checks it.
//
// Both cookies live as long as the refresh token, so that a browser can refresh an expired JWT. A browser keeps sending cookies of one name
// with different values, all of them invalid. Sign-in and sign-out fix this: they expire the cookies of earlier configurations in other
// scopes (COOKIE_DOMAIN, the path of BASE_URL, COOKIE_PARTITIONED). A refresh does not: its response can come late, and would then delete
// the cookies of a newer sign-in.
package session
