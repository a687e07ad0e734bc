// Package server is the service over HTTP: the six operations of openapi.yaml, and the frame that every request passes. It owns what
// touches Echo, the order of the middleware, the table of errors, and who may call what.
//
// It never touches a database: a handler is one call of models.Store, one error, one response. It makes no rule about a body or a
// parameter that the contract does not have. What is beside the operations stands in rooms of its own below internal/: the pages,
// sign-in, what an operator sees, and the engines, which know nothing of Echo.
//
// A request becomes the context of its handler, and carries with it what middleware has found out:
//
//	net/http
//	   |  observe          id, log line, metrics, a panic is a 500      middleware.go
//	   |  browser rules    headers, CORS, other origins                 browser.go
//	   |  limits           header lines, in flight, rate, start         middleware.go, rates.go
//	   |  routing          a series for each operation and page         routes.go
//	   |  requireAuth      the JWT says who the caller is               middleware.go
//	   |  contract         the body has arrived and fits                body.go, validation.go
//	   v
//	handler                events.go, auth.go  ->  models.Store
//	   |
//	   '-- an error  ->  problems  ->  status, code, message            errors.go
//
// Any error that is not in the table is a 500 whose cause only the log has.
package server
