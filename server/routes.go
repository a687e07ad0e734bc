package server

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"worldevents/server/internal/observe"
)

// route is a method and a path in the spelling of Echo.
type route struct{ method, path string }

// router registers handlers with Echo, and knows the series of each route.
type router struct {
	echo     *echo.Echo
	observer *observe.Observer
	series   map[route]*observe.Series
	// For requests without a route, such as OPTIONS.
	notFound, methodNotAllowed, options *observe.Series
}

func newRouter(observer *observe.Observer) *router {
	return &router{
		echo: echo.New(), observer: observer, series: make(map[route]*observe.Series),
		notFound:         observer.Series("notFound", ""),
		methodNotAllowed: observer.Series("methodNotAllowed", ""),
		options:          observer.Series("options", http.MethodOptions),
	}
}

// Get registers a page, and returns its series.
func (r *router) Get(id, path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) *observe.Series {
	return r.add(r.observer.Series(id, http.MethodGet), http.MethodGet, path, anyForm, h, m)
}

// Post is Get for a form.
func (r *router) Post(id, path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) *observe.Series {
	return r.add(r.observer.Series(id, http.MethodPost), http.MethodPost, path, anyForm, h, m)
}

// PostLarge is Post for a form of up to 64 KiB.
func (r *router) PostLarge(id, path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) *observe.Series {
	return r.add(r.observer.Series(id, http.MethodPost), http.MethodPost, path, largeForm, h, m)
}

// GetOrHead is Get for pages that respond to HEAD as well: unlike operations they spend nothing.
func (r *router) GetOrHead(id, path string, h echo.HandlerFunc) {
	s := r.observer.Series(id, "")
	r.add(s, http.MethodGet, path, anyForm, h, nil)
	r.add(s, http.MethodHead, path, anyForm, h, nil)
}

func (r *router) add(s *observe.Series, method, path string, limit formLimit, h echo.HandlerFunc, m []echo.MiddlewareFunc) *observe.Series {
	r.series[route{method, path}] = s
	r.echo.Add(method, path, h, append(slices.Clone(m), before(receiveForm(limit)))...)
	return s
}

// resolve sets the series of a request by its route, which it finds first if middleware refused the request before routing.
func (r *router) resolve(c echo.Context, req *request) {
	method := c.Request().Method
	if c.Path() == "" {
		r.echo.Router().Find(method, canonical(c.Request().URL), c)
	}
	s := r.series[route{method, c.Path()}]
	switch {
	case s != nil:
		req.Series = s
	case method == http.MethodOptions:
		req.Series = r.options
	case c.Get(echo.ContextKeyHeaderAllow) != nil:
		req.Series = r.methodNotAllowed
	}
}

// canonicalPath decodes and escapes each segment of a path once (RFC 3986 section 6.2.2), so that all spellings match the same route. Echo
// routes by RawPath, and the generated code decodes what it finds there.
func canonicalPath(c echo.Context) error {
	u := c.Request().URL
	u.RawPath = canonical(u)
	return nil
}

func canonical(u *url.URL) string {
	path := u.EscapedPath()
	if !strings.Contains(path, "%") {
		return path
	}
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		if text, err := url.PathUnescape(segment); err == nil {
			segments[i] = url.PathEscape(text)
		}
	}
	return strings.Join(segments, "/")
}

// rejectExtraSegments ends the last path parameter at a slash. With Echo alone /api/event/a/b would be the world "a/b".
func rejectExtraSegments(e *echo.Echo) {
	for _, route := range e.Routes() {
		if strings.Contains(route.Path, ":") {
			e.RouteNotFound(route.Path+"/", echo.NotFoundHandler)
		}
	}
}
