package pages

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
)

// Failure is an error of a request as a person sees it.
type Failure struct {
	Heading, Message, RequestID string
	// Link leads on to a path below Base, which Path is.
	Path, Link string
	// SignOut means that the person has typed an address that signs out by a form alone.
	SignOut bool
}

const failureKey = "worldevents.failure"

// ShowErrors has errors of its requests, those of forms among them, be a page with this heading, which leads on to a path.
func ShowErrors(heading, path, link string) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.Set(failureKey, &Failure{Heading: heading, Path: path, Link: link})
			c.Response().Header().Set("Cache-Control", "no-store")
			return next(c)
		}
	}
}

// LeadOn has the page of an error lead to this path.
func LeadOn(c echo.Context, path string) {
	if f, ok := c.Get(failureKey).(*Failure); ok {
		f.Path = path
	}
}

// WriteError writes an error as a page if the request asks for HTML, and reports whether it does. Below /api everything is JSON, and so are
// errors of forms without ShowErrors.
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
