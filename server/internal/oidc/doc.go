// Package oidc is the relying party of OpenID Connect Core 1.0, with the authorization code flow and PKCE. It owns the requests to the
// provider, and the metadata and keys of the provider.
//
// It keeps no state of a sign-in: a Flow lives in a cookie of the browser that began it. It trusts the provider only with users' names.
// Errors repeat nothing of a callback, and nothing of a response that may contain a code or a token.
//
// The secrets of a flow are derived from its text and a key, so any instance with the key can finish it, only in the browser that began it,
// and the provider gets no code of other flows. Responses are bounded in size and time, and each client has a share of the 64 places at the
// provider. Metadata is kept for metadataTTL, with the keys; an ID token with a new key makes the service fetch them at once.
//
//	NewFlow  -- Cookie, AuthCodeURL -->  at the provider  -- callback -->  ResumeFlow  -- Exchange -->  an Identity
//	                                          |                                |             |
//	                                          '-- 10 minutes: ErrFlow          '-- ErrFlow   '-- ErrDenied, ErrProvider, ErrBusy
package oidc
