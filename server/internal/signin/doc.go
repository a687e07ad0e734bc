// Package signin begins sessions and ends them, in a browser: sign-in by name in development, sign-in with an OpenID Connect provider,
// sign-out, and the page on which users see their sessions.
//
// It never refreshes a session, and lets nobody call an operation: package server does both. It makes no token and no cookie of a
// session itself, which is package session's, speaks to no provider, which is package oidc's, and asks Options.Problem for the
// status and the text of an error. Package ownevents asks it who has sent a request (Current), and leads browsers as it does.
//
// A sign-in with the provider is a flow, which the browser keeps in a cookie of its own, one for each tab, while it is away:
//
//	browser              this service                                  provider
//	  | GET /sign-in          |                                           |
//	  |---------------------->| NewFlow: state, nonce, verifier           |
//	  |<----------------------| 303, Set-Cookie: signIn-...               |
//	  |------------------------------------------------------------------>| who are you?
//	  |<------------------------------------------------------------------| 303 /sign-in/callback?code&state
//	  |---------------------->| ResumeFlow, Exchange -------------------->|
//	  |                       |<------------------------------------------| who it is
//	  |<----------------------| begin: a session, Set-Cookie: token, refreshToken; the flow is over
//
// Whatever begins a session goes through begin, and whatever ends one leaves a security event. What a request may end depends on what
// it proves: its refresh tokens first, and the JWTs where it has none.
package signin
