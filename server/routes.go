package server

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// route is a method and a path as Echo spells it.
type route struct{ method, path string }

// unrouted are the operations of requests that fit no route.
type unrouted struct {
	notFound, methodNotAllowed *operation
	// options is for OPTIONS, preflights among them, which no route has.
	options *operation
}

func (s *Server) newUnrouted() unrouted {
	return unrouted{
		notFound:         s.newOperation("notFound", ""),
		methodNotAllowed: s.newOperation("methodNotAllowed", ""),
		options:          s.newOperation("options", http.MethodOptions),
	}
}

// get registers a handler of a page. Its requests are counted and logged as the operation id.
func (s *Server) get(id, path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) {
	s.register(s.newOperation(id, http.MethodGet), http.MethodGet, path, h, m)
}

// post is get for a form.
func (s *Server) post(id, path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) {
	s.register(s.newOperation(id, http.MethodPost), http.MethodPost, path, h, m)
}

// getOrHead is get for what responds to HEAD as well: it spends nothing, unlike an operation of the contract.
func (s *Server) getOrHead(id, path string, h echo.HandlerFunc) {
	o := s.newOperation(id, "")
	s.register(o, http.MethodGet, path, h, nil)
	s.register(o, http.MethodHead, path, h, nil)
}

func (s *Server) register(o *operation, method, path string, h echo.HandlerFunc, m []echo.MiddlewareFunc) {
	s.routes[route{method, path}] = o
	s.echo.Add(method, path, h, append(append([]echo.MiddlewareFunc{o.middleware}, m...), s.receiveForm)...)
}

// resolveOperation finds the operation of a request that did not get as far as its route, since a limit or a rule for all
// requests refused it, or that fits none.
func (s *Server) resolveOperation(c echo.Context, req *request) {
	if req.operation != s.unrouted.notFound {
		return
	}
	r := c.Request()
	s.echo.Router().Find(r.Method, canonical(r.URL), c)
	o := s.routes[route{r.Method, c.Path()}]
	switch {
	case o != nil:
		req.operation = o
	case r.Method == http.MethodOptions:
		req.operation = s.unrouted.options
	case c.Get(echo.ContextKeyHeaderAllow) != nil:
		req.operation = s.unrouted.methodNotAllowed
	}
}
