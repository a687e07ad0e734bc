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

// templates are layout.html with each of the other files.
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

// deniedFeatures are browser features that no page, nor a frame in one, uses (W3C Permissions Policy).
const deniedFeatures = "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"

// Router registers the handlers of pages with the id of their series.
type Router interface {
	Get(id, path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) *observe.Series
	// Post is for a form of up to 8 KiB, whose body is read after m. PostLarge is for one of up to 64 KiB, where m must find the user.
	Post(id, path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) *observe.Series
	PostLarge(id, path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) *observe.Series
	GetOrHead(id, path string, h echo.HandlerFunc)
}

// Options of Pages, as in package server.
type Options struct {
	// BaseURL is the public address, Base its path, both without a slash at the end.
	BaseURL, Base string
	Home          *url.URL // the origin where people come from, or nil
	Brand         string   // BrandName
	Development   bool
	EventsPage    bool
	Provider      string           // the host of the identity provider, or ""
	Sessions      *session.Manager // verifies the JWT
	Now           func() time.Time
}

// Pages writes pages. Its methods may be called concurrently.
type Pages struct{ Options }

func New(o Options) *Pages { return &Pages{o} }

// Page is the data of a template. What a page does not show is empty.
type Page struct {
	User     string // signed in
	ReturnTo string // the target of a sign-in
	Failure  *Failure

	Current *Session // session of the browser
	Others  []Session

	Events *Events // of the user
}

// Session is a session for its user. Network is in words, or "". The id opens nothing.
type Session struct {
	Base, ID, Device, Network string
	Begun, Active             time.Time // in UTC
}

// shown is a Page with the data of all pages.
type shown struct {
	Page
	Options
	Name    string // of the template
	Script  bool   // the page has page.js
	SignIn  bool   // there is a way to sign in
	Expired bool   // the JWT; the session may still be refreshed
}

// Render writes a page with the user of the JWT.
func (p *Pages) Render(c echo.Context, status int, name, policy string, page Page) error {
	user, err := p.Sessions.VerifyCookies(session.ReadCookies(c.Request().Header))
	if err == nil {
		page.User = user.Username
	}
	return p.write(c, status, name, policy, shown{Page: page, Expired: errors.Is(err, session.ErrExpired)})
}

// RenderAs is Render with the user in page.
func (p *Pages) RenderAs(c echo.Context, status int, name, policy string, page Page) error {
	return p.write(c, status, name, policy, shown{Page: page})
}

func (p *Pages) write(c echo.Context, status int, name, policy string, s shown) error {
	s.Options, s.Name, s.Script, s.SignIn = p.Options, name, policy == ScriptPolicy, p.Development || p.Provider != ""
	h := c.Response().Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin") // cuts off the page that opened ours
	h.Set("Permissions-Policy", deniedFeatures)
	// With no-referrer the Origin of a form is null, which is refused without Fetch Metadata. The address of a failed sign-in has its code.
	if name != "error.html" || s.User != "" {
		h.Set("Referrer-Policy", "strict-origin")
	}
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "text/html; charset=utf-8")
	c.Response().WriteHeader(status)
	return templates[name].ExecuteTemplate(c.Response(), "layout", s)
}
