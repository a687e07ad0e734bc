package pages

import (
	"embed"
	"errors"
	"html/template"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"worldevents/server/internal/observe"
	"worldevents/server/internal/session"
)

//go:embed html/*.html
var html embed.FS

// templates are the pages by the names of their files. Each is layout.html with what that file defines.
var templates = readTemplates("docs.html", "error.html", "events.html", "sessions.html", "sign-in.html")

func readTemplates(names ...string) map[string]*template.Template {
	read := make(map[string]*template.Template)
	for _, name := range names {
		read[name] = template.Must(template.ParseFS(html, "html/layout.html", "html/"+name))
	}
	return read
}

// Policy is the Content-Security-Policy of pages without scripts, ScriptPolicy that of pages with page.js.
const (
	Policy       = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	ScriptPolicy = Policy + "; script-src 'self'"
)

// deniedFeatures are what no page of ours, nor a frame in one, ever asks a browser for (W3C Permissions Policy).
const deniedFeatures = "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"

// Router registers the handlers of pages, whose requests are counted and logged as the series id.
type Router interface {
	Get(id, path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) *observe.Series
	// Post is for a form of up to 8 KiB, whose body is read behind m, before the handler is called. PostLarge is for one of up to
	// 64 KiB, where m must have found out whose it is.
	Post(id, path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) *observe.Series
	PostLarge(id, path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) *observe.Series
	GetOrHead(id, path string, h echo.HandlerFunc)
}

// Options of Pages.
type Options struct {
	// BaseURL is the public address, Base its path, both without a slash at the end.
	BaseURL, Base string
	// Home is the origin of the product that people come from, nil if nobody knows.
	Home *url.URL
	// Brand is what the pages call the service.
	Brand string
	// Development means that anybody signs in by a name.
	Development bool
	// EventsPage means that there is /events.
	EventsPage bool
	// Provider is the host of the identity provider, "" without one.
	Provider string
	// Sessions tell who is signed in.
	Sessions *session.Manager
	// Now is the clock.
	Now func() time.Time
}

// Pages writes pages. Its methods may be called concurrently.
type Pages struct{ Options }

// New returns Pages.
func New(o Options) *Pages { return &Pages{o} }

// Page is what a template shows. What it does not show is empty.
type Page struct {
	User     string // who is signed in
	ReturnTo string // where a sign-in leads
	BackAt   string // the host of ReturnTo, "" for this service
	Username string // what was typed into a form
	Error    string // what is wrong with it
	Failure  *Failure

	Current *Session // the session that the page was asked for from
	Others  []Session

	Events *Events // of the user who is signed in
}

// Session is a session as its user sees it: Network is in words, or "" if nobody knows. The id opens nothing.
type Session struct {
	Base, ID, Device, Network string
	Begun, Active             time.Time // in UTC
}

// shown is a Page with what all pages show.
type shown struct {
	Page
	Options
	Name    string // of the template
	Script  bool   // the page has page.js
	SignIn  bool   // there is a way to sign in
	Expired bool   // the JWT has expired: the session may still be refreshed
}

// Render writes a page that says whom the JWT of the request names.
func (p *Pages) Render(c echo.Context, status int, name, policy string, page Page) error {
	user, err := p.Sessions.VerifyCookies(session.ReadCookies(c.Request().Header))
	if err == nil {
		page.User = user.Username
	}
	return p.write(c, status, name, policy, shown{Page: page, Expired: errors.Is(err, session.ErrExpired)})
}

// RenderAs is Render for a handler that knows by something else who is signed in.
func (p *Pages) RenderAs(c echo.Context, status int, name, policy string, page Page) error {
	return p.write(c, status, name, policy, shown{Page: page})
}

func (p *Pages) write(c echo.Context, status int, name, policy string, s shown) error {
	s.Options, s.Name, s.Script, s.SignIn = p.Options, name, policy == ScriptPolicy, p.Development || p.Provider != ""
	h := c.Response().Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin") // no page that opened ours holds on to its window
	h.Set("Permissions-Policy", deniedFeatures)
	// With no-referrer the Origin of a form is null, which is refused where browsers send no Fetch Metadata. Where a sign-in failed the address has
	// its code, and nothing is told without need.
	if name != "error.html" || s.User != "" {
		h.Set("Referrer-Policy", "strict-origin")
	}
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "text/html; charset=utf-8")
	c.Response().WriteHeader(status)
	return templates[name].ExecuteTemplate(c.Response(), "layout", s)
}
