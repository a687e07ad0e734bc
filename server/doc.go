// Package server is the service over HTTP: the six operations of openapi.yaml, and the frame that every request passes. It owns what
// touches Echo, the order of the middleware, the table of errors, and who may call what.
//
// It never touches a database: a handler calls models.Store once and returns one error or one response. ListEvents calls package livelist
// if it has `wait`, and package eventlist if not. It makes no rule about a body or a parameter that the contract does not have. The
// packages below internal have the rest: the pages, sign-in, what an operator sees, and the engines, which know nothing of Echo.
//
// A request becomes the context of its handler, and carries along what middleware has found out:
//
//	net/http
//	   |  observe          id, log line, metrics, a panic is a 500      middleware.go
//	   |  browser rules    headers, CORS                                browser.go
//	   |  limits           header lines, in flight, rate, start         middleware.go, rates.go
//	   |  other origins    refused if they bring the user's cookies     browser.go
//	   |  routing          a series for each operation and page         routes.go
//	   |  requireAuth      the JWT says who the caller is; the two      middleware.go
//	   |                   auth operations skip it
//	   |  contract         the body has arrived and fits                body.go, validation.go
//	   v
//	handler                events.go, auth.go  ->  models.Store
//	   |
//	   '-- an error  ->  problems  ->  status, code, message            errors.go
//
// ErrBusy, ErrUnreachable and ErrUnwritable of package models are 503 with Retry-After. ErrTimeout, every other
// ErrUnavailable and any error that the table does not have are 500. The body of a 500 names what was being done and the class of the
// cause (database timeout, database unavailable, unexpected error); the log has the cause itself.
//
// GET /api/auth/refresh always spends the refresh token. GET /api/auth/session does so only when the JWT has merely expired. Both change
// state, so other origins may call neither.
package server
