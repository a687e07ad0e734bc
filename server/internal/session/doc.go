// Package session issues and verifies the two tokens that say who is signed in, and reads and writes their cookies.
//
// It never touches the database: the store keeps hashes of refresh tokens, and decides whether one is the current one. It reads no
// configuration, and no other package makes or reads these cookies.
//
// The token is a JWT that lives 15 minutes and is verified without the database. Verify leaves only its form and signature to
// golang-jwt, and checks the claims itself. ErrExpired means that the JWT is otherwise valid, because a refresh cures only age. A
// signature that was right once is remembered, but dates are checked on every use. The refresh token is random and works once:
//
//	0                            32                                                              128 hexadecimal digits
//	| handle: stays the same     | fresh with each refresh                                        |
//	'--- SHA-256: which session  '                                                                '
//	'--- SHA-256 of all: the current token, or a spent one ---------------------------------------'
//
//	issued  -- refresh -->  spent, may come back for the leeway  -->  spent: the session is revoked if it comes back
//
// Of concurrent refreshes one wins. The others get 400 and no cookie: the browser already has the winner's cookies, and a tab that lost
// asks GET /api/auth/session again. That operation does not look whether the session was revoked; every event operation does.
//
// Both cookies live as long as the refresh token: a browser that had dropped an expired JWT could not refresh it. Cookies of one name
// with different values are never believed, and a browser that holds such cookies keeps sending them. Sign-in and sign-out mend this:
// they expire the cookies that an earlier configuration can have left in other scopes (COOKIE_DOMAIN, the path of BASE_URL,
// COOKIE_PARTITIONED). A refresh does not: its response can come late, and would then delete the cookies of a newer sign-in.
package session
