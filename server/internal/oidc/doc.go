// Package oidc signs users in with an identity provider: it is the relying party of OpenID Connect Core 1.0, with the authorization
// code flow and PKCE. It owns the requests to the provider, and what the provider has published.
//
// It never begins a session, and keeps nothing about a sign-in: a Flow lives in a cookie of the browser that began it. It trusts the
// provider with users' names and with nothing else. Errors repeat nothing of a callback, and nothing of a response where a code or a
// token could be in it.
//
// Everything that must match at the end of a flow is derived from its text and a key. So any instance with the key can end what another
// began, a callback works only in the browser that began it, and the provider gets no code from flows that we did not begin. What the
// provider sends is bounded in size and time, and each client has a share of the 64 places at the provider. Its metadata is kept for
// metadataTTL, with the keys that verify tokens; an ID token of a new key has them fetched at once. Members that nobody needs are not read.
//
//	NewFlow  -- Cookie, AuthCodeURL -->  at the provider  -- callback -->  ResumeFlow  -- Exchange -->  an Identity
//	                                          |                                |             |
//	                                          '-- 10 minutes: ErrFlow          '-- ErrFlow   '-- ErrDenied, ErrLate, ErrProvider, ErrBusy
package oidc
