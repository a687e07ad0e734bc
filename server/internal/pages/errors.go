package pages

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
)

// Failure is an error for people.
type Failure struct {
	Heading, Message, RequestID string
	// Link leads to Path below Base.
	Path, Link string
	// SignOut means that somebody opened the address of the sign-out form.
	SignOut bool
}

const failureKey = "worldevents.failure"

// ShowErrors makes errors of its requests, forms included, pages with this heading and a link to path.
func ShowErrors(heading, path, link string) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.Set(failureKey, &Failure{Heading: heading, Path: path, Link: link})
			c.Response().Header().Set("Cache-Control", "no-store")
			return next(c)
		}
	}
}

// LeadOn changes the path of an error page's link.
func LeadOn(c echo.Context, path string) {
	if f, ok := c.Get(failureKey).(*Failure); ok {
		f.Path = path
	}
}

// WriteError writes an error as a page if the request asks for HTML, and reports whether it does. Others are JSON, as all below /api.
func (p *Pages) WriteError(c echo.Context, status int, message, requestID string) bool {
	r := c.Request()
	f, ok := c.Get(failureKey).(*Failure)
	if !ok {
		f = &Failure{Heading: "It did not work", Path: "/sessions", Link: "Your sessions", SignOut: r.URL.Path == "/sign-out"}
		if p.EventsPage {
			f.Path, f.Link = "/events", "Your events"
		}
		switch status {
		case http.StatusNotFound:
			f.Heading, message = "There is no such page", "Nothing is at this address"
		case http.StatusMethodNotAllowed:
			f.Heading, message = "This is no page", "Only forms are sent to this address"
		}
		ok = (r.Method == http.MethodGet || r.Method == http.MethodHead) && !strings.HasPrefix(r.URL.Path+"/", "/api/")
	}
	if !ok || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		return false
	}
	f.Message, f.RequestID = message, requestID
	p.Render(c, status, "error.html", ScriptPolicy, Page{Failure: f})
	return true
}
