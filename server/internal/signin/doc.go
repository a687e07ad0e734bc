// Package signin begins and ends sessions in a browser: sign-in by name in development, sign-in with an OpenID Connect provider, sign-out,
// and the page of the user's sessions. Package server refreshes sessions, package session makes tokens and cookies, and Options.Problem
// maps errors to responses. Package ownevents uses Current and the redirects.
//
// A sign-in with the provider is a flow, which the browser keeps meanwhile in a cookie, one for each tab:
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
// All sessions begin in begin, and each end leaves a security event. A request ends the sessions of its refresh tokens, else of its JWTs.
package signin
