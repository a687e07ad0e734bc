package server

import (
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"worldevents/server/internal/inflight"
	"worldevents/server/internal/session"
)

// observe gives the request its id, turns a panic into a 500, and leaves a log line and metrics. It builds the chain of inner once: Echo
// would build it for each request.
func (s *Server) observe(inner ...echo.MiddlewareFunc) echo.MiddlewareFunc {
	chain := func(c echo.Context) error { return requestFrom(c.Request().Context()).next(c) }
	for _, m := range slices.Backward(inner) {
		chain = m(chain)
	}
	return func(route echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error { return s.handle(c, chain, route) }
	}
}

func (s *Server) handle(c echo.Context, chain, route echo.HandlerFunc) error {
	r := c.Request()
	req := &request{Context: r.Context(), header: c.Response().Header(), next: route}
	s.observer.Begin(&req.Request, s.router.notFound)
	req.HTTP = r.WithContext(req)
	c.SetRequest(req.HTTP)
	req.idLine[0] = req.ID
	req.header["X-Request-Id"] = req.idLine[:]
	req.writer = responseWriter{Writer: inflight.NewWriter(c.Response().Writer, &req.place), readiness: s.observer.Readiness}
	c.Response().Writer = &req.writer

	defer func() {
		p := recover()
		s.router.resolve(c, req)
		if p != nil && p != http.ErrAbortHandler {
			s.log.Error("panic", "request_id", req.ID, "operation", req.Series.ID, "panic", p, "stack", string(debug.Stack()))
			if !c.Response().Committed {
				s.writeError(errInternal, c)
				p = nil
			}
		}
		req.QueueWait += req.place.Queued()
		req.ClientWait = req.writer.Waited()
		s.observer.Record(&req.Request, c.Response().Status, c.Response().Size-req.writer.dropped)
		if p != nil {
			panic(http.ErrAbortHandler) // net/http closes the connection without a log line
		}
	}()
	if err := chain(c); err != nil {
		s.writeError(err, c)
	}
	return nil
}

// refuseEmptyHost refuses a request for no host (RFC 9110 section 4.2.1). net/http itself refuses HTTP/1.1 without Host.
func refuseEmptyHost(c echo.Context) error {
	if host := c.Request().Host; host == "" || host[0] == ':' {
		return errHost
	}
	return nil
}

// joinTags joins the lines of If-None-Match (RFC 9110 section 5.3): the generated binding refuses several.
func joinTags(c echo.Context) error {
	if lines := c.Request().Header["If-None-Match"]; len(lines) > 1 {
		c.Request().Header.Set("If-None-Match", strings.Join(lines, ", "))
	}
	return nil
}

// How long a request waits for the start. With an unread body it waits less: net/http cannot notice yet that the client hangs up.
const (
	maxStartWait       = 5 * time.Second
	maxStartWaitUnread = 2 * time.Second
)

// awaitMigration makes requests wait, up to limit, until the schema is up to date. So a short restart costs nobody a response.
func (s *Server) awaitMigration(limit time.Duration) echo.MiddlewareFunc {
	return before(func(c echo.Context) error {
		if s.observer.Readiness.IsMigrated() {
			return nil
		}
		limit := limit
		if c.Request().ContentLength != 0 {
			limit = min(limit, maxStartWaitUnread)
		}
		select {
		case <-s.observer.Readiness.Started():
		case <-c.Request().Context().Done():
			return c.Request().Context().Err()
		case <-time.After(limit):
		}
		if !s.observer.Readiness.IsMigrated() {
			return errStarting
		}
		return nil
	})
}

// requireAuth sets the caller from a valid JWT. It never refreshes.
func (s *Server) requireAuth(c echo.Context) error {
	user, err := s.sessions.VerifyCookies(session.ReadCookies(c.Request().Header))
	if err != nil {
		return err
	}
	caller, err := user.Caller()
	if err != nil {
		return err
	}
	req := requestFrom(c.Request().Context())
	req.caller, req.UserID, req.expires = caller, user.UserID, user.Expires
	return nil
}

// maxHeaderLines bounds the header lines of a request. Each costs ten times its bytes.
const maxHeaderLines = 100

func limitHeaderLines(c echo.Context) error {
	lines := 0
	for _, values := range c.Request().Header {
		lines += len(values)
	}
	if lines > maxHeaderLines {
		closeAfter(c)
		return errHeaders
	}
	return nil
}

// limitInFlight responds 503 when all places are taken.
func (s *Server) limitInFlight(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		place := &requestFrom(c.Request().Context()).place
		if !s.places.Take(place) {
			closeAfter(c)
			return errOverloaded
		}
		defer place.GiveBack()
		return next(c)
	}
}

// setStoreDeadline gives all store calls of a request one deadline, from when the request has been read. Reading a list has its own.
func setStoreDeadline(limit time.Duration) echo.MiddlewareFunc {
	return before(func(c echo.Context) error {
		requestFrom(c.Request().Context()).storeDeadline = time.Now().Add(limit)
		return nil
	})
}
