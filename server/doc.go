// Package server is the service over HTTP: the six operations of openapi.yaml, the middleware in front, and the table of errors.
//
// All use of Echo is here and in packages below internal, which have the pages, sign-in, observation, and engines without Echo. A handler
// calls models.Store once. ListEvents calls package livelist with `wait`, else package eventlist. Rules about requests come from the
// contract only.
//
// A request is the context of its handler, and carries the results of middleware:
//
//	net/http
//	   |  observe          id, log line, metrics, a panic is a 500      middleware.go
//	   |  browser rules    headers, CORS                                browser.go
//	   |  limits           header lines, in flight, rate, start         middleware.go, rates.go
//	   |  other origins    refused if they bring the user's cookies     browser.go
//	   |  routing          each operation and page has a series         routes.go
//	   |  requireAuth      the JWT says who the caller is; the two      middleware.go
//	   |                   auth operations skip it
//	   |  contract         the body has arrived and fits                body.go, validation.go
//	   v
//	handler                events.go, auth.go  ->  models.Store
//	   |
//	   '-- an error  ->  problems  ->  status, code, message            errors.go
//
// ErrBusy, ErrUnreachable and ErrUnwritable of package models are 503 with Retry-After. ErrTimeout, other ErrUnavailable and errors that
// are not in the table are 500. The body of a 500 names the operation and the class of the cause; the log has the cause itself.
//
// GET /api/auth/refresh always spends the refresh token, GET /api/auth/session only if the JWT has merely expired.
package server
