package server

import (
	"embed"
	"errors"
	"html/template"
	"io/fs"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"worldevents/server/internal/session"
)

var (
	//go:embed pages
	pages     embed.FS
	templates = template.Must(template.ParseFS(pages, "pages/*.html"))
	files, _  = fs.Sub(pages, "pages/assets")
)

// docsPolicy is what Swagger UI needs: its own files, the API of this origin, and icons inside its style sheet.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// pagePolicy is for pages without scripts.
const pagePolicy = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// deniedFeatures are what no page of ours, nor a frame in one, ever asks a browser for (W3C Permissions Policy).
const deniedFeatures = "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"

// page is what the templates show.
type page struct {
	Base        string // the path of the public address
	User        string // who is signed in, or ""
	Expired     bool   // the JWT has expired: the session may still be refreshed
	Development bool
	SignIn      bool   // there is a way to sign in
	Provider    string // the identity provider's host, or ""
	ReturnTo    string
	Username    string
	Error       string
	RequestID   string // of the request that Error is about

	Current *sessionEntry // the session that the page was asked for from; nil if there is none
	Others  []sessionEntry
}

// registerDocs serves the published contract, and Swagger UI from files inside the binary.
func (s *Server) registerDocs(c *publishedContract) {
	s.router.Get("docs", "/", func(c echo.Context) error { return c.Redirect(http.StatusSeeOther, s.base+"/docs") })
	s.router.GetOrHead("contract", "/openapi.json", func(ctx echo.Context) error { return publish(ctx, "application/json", c.json) })
	s.router.GetOrHead("contract", "/openapi.yaml", func(ctx echo.Context) error { return publish(ctx, "application/yaml", c.yaml) })
	s.router.GetOrHead("docs", "/docs", func(c echo.Context) error { return s.render(c, http.StatusOK, "docs.html", docsPolicy, page{}) })
	for _, name := range []string{"docs.css", "docs.js"} {
		s.router.GetOrHead("assets", "/docs/"+name, asset(http.StripPrefix("/docs", http.FileServerFS(files))))
	}
	for _, name := range []string{"swagger-ui.css", "swagger-ui-bundle.js"} {
		s.router.GetOrHead("assets", "/docs/"+name, asset(newSwaggerFile(name)))
	}
}

// registerPageAssets serves the style sheet and icon of our own pages. They are below a path that is ours, as /assets is
// not where a proxy shares the origin with an application.
func (s *Server) registerPageAssets() {
	for _, name := range []string{"page.css", "icon.svg"} {
		s.router.GetOrHead("assets", "/sign-in/"+name, asset(http.StripPrefix("/sign-in", http.FileServerFS(files))))
	}
}

// publish writes the contract. Pages of any origin may read it: it is the same for all, and has no secret.
func publish(c echo.Context, mediaType string, text []byte) error {
	h := c.Response().Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	h.Del("Vary")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	return c.Blob(http.StatusOK, mediaType, text)
}

// asset lets browsers keep a file of this binary for an hour.
func asset(files http.Handler) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Response().Header().Set("Cache-Control", "public, max-age=3600")
		c.Response().Header().Del("Vary")
		files.ServeHTTP(c.Response(), c.Request())
		return nil
	}
}

// showErrors makes errors a page of this template if the request asks for HTML.
func showErrors(template string) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if strings.Contains(c.Request().Header.Get("Accept"), "text/html") {
				requestFrom(c.Request().Context()).errorPage = template
			}
			c.Response().Header().Set("Cache-Control", "no-store")
			return next(c)
		}
	}
}

// render is renderPage for a page that says whom the JWT names.
func (s *Server) render(c echo.Context, status int, name, policy string, p page) error {
	if token, err := session.ReadCookies(c.Request().Header).Token(); err == nil {
		user, err := s.sessions.Verify(token)
		if err == nil {
			p.User = user.Username
		}
		p.Expired = errors.Is(err, session.ErrExpired)
	}
	return s.renderPage(c, status, name, policy, p)
}

// renderPage writes one of our pages.
func (s *Server) renderPage(c echo.Context, status int, name, policy string, p page) error {
	p.Base = s.base
	p.Development = s.development
	p.SignIn = s.development || s.provider != nil
	if s.provider != nil {
		p.Provider = s.provider.Host()
	}
	h := c.Response().Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin") // no page that opened ours holds on to its window
	h.Set("Permissions-Policy", deniedFeatures)
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "text/html; charset=utf-8")
	c.Response().WriteHeader(status)
	return templates.ExecuteTemplate(c.Response(), name, p)
}
