package server

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"worldevents/models"
)

// registerSignIn serves the pages around the session: sign-out always, sign-in by name in development, and sign-in
// with an identity provider where there is one. In production nothing stands between /sign-in and the provider.
func (s *Server) registerSignIn(e *echo.Echo) {
	e.POST("/sign-out", s.signOut)
	if s.development {
		e.GET("/sign-in", s.signInPage)
		e.POST("/sign-in", s.signIn)
	}
	if s.provider != nil {
		begin := "/sign-in"
		if s.development {
			begin = "/sign-in/provider"
		}
		e.GET(begin, s.beginSignIn, s.newOperation("beginSignIn", http.MethodGet).middleware, s.forPeople)
		e.GET("/sign-in/callback", s.finishSignIn, s.newOperation("finishSignIn", http.MethodGet).middleware, s.forPeople)
	}
}

func (s *Server) signInPage(c echo.Context) error {
	return s.render(c, http.StatusOK, "sign-in.html", s.signInPolicy(), page{ReturnTo: c.QueryParam("return_to")})
}

// signInPolicy is pagePolicy with the addresses that the form may lead to: browsers hold its redirect to form-action.
func (s *Server) signInPolicy() string {
	const own = "form-action 'self'"
	return strings.Replace(pagePolicy, own, strings.Join(append([]string{own}, s.returnOrigins...), " "), 1)
}

// maxForm bounds the sign-in form, in bytes.
const maxForm = 8 << 10

// signIn signs in as anybody: development only.
func (s *Server) signIn(c echo.Context) error {
	r := c.Request()
	r.Body = http.MaxBytesReader(c.Response(), r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return errValidation.with(map[string]string{"body": "must be a form of at most 8 KiB"})
	}
	returnTo := r.Form.Get("return_to")
	session, err := s.SignIn(r.Context(), r.PostForm.Get("username"), true)
	if errors.Is(err, models.ErrUsername) {
		return s.render(c, http.StatusBadRequest, "sign-in.html", s.signInPolicy(), page{
			ReturnTo: returnTo, Username: r.PostForm.Get("username"), Fault: models.ErrUsername.Error(),
		})
	}
	if err != nil {
		return err
	}
	s.sessions.setCookies(c.Response().Header(), &session)
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.Redirect(http.StatusSeeOther, s.returnAddress(returnTo))
}

// signOut revokes the session and clears both cookies. It works without a session: a browser that has lost one half
// of it must still get rid of the other.
func (s *Server) signOut(c echo.Context) error {
	r := c.Request()
	var hash models.Hash // the zero hash is nobody's
	if refreshToken, err := cookieValue(r.Header, refreshCookie); err == nil {
		if h, ok := hashRefreshToken(refreshToken); ok {
			hash = h
		}
	}
	var userID string
	if token, err := cookieValue(r.Header, tokenCookie); err == nil {
		if user, err := s.sessions.verify(token); err == nil || errors.Is(err, errExpired) {
			userID = user.Subject
		}
	}
	if hash != (models.Hash{}) || userID != "" {
		if err := s.store.SignOut(r.Context(), hash, userID); err != nil {
			return err
		}
	}
	s.sessions.setCookies(c.Response().Header(), nil)
	c.Response().Header().Set("Cache-Control", "no-store")
	if !isForm(r) {
		return c.NoContent(http.StatusNoContent)
	}
	if s.development {
		return c.Redirect(http.StatusSeeOther, s.base+"/sign-in")
	}
	return c.Redirect(http.StatusSeeOther, s.base+"/docs")
}

// isForm tells a form, after which the browser shows what is answered, from a script's fetch (Fetch Metadata; older
// browsers say it by what they accept).
func isForm(r *http.Request) bool {
	if mode := r.Header.Get("Sec-Fetch-Mode"); mode != "" {
		return mode == "navigate"
	}
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}

// maxReturn bounds a return address, in bytes: it must fit into a cookie.
const maxReturn = 2000

// returnAddress is target when a sign-in may lead there: to an address of an allowed origin or a path of this
// service. Else it is the docs. The origin is matched as text, so that no parser can disagree with the browser's.
func (s *Server) returnAddress(target string) string {
	if len(target) > maxReturn {
		target = ""
	}
	for _, origin := range s.returnOrigins {
		rest, ok := strings.CutPrefix(target, origin)
		if ok && (rest == "" || strings.Contains("/?#", rest[:1])) && !strings.ContainsFunc(rest, odd) {
			return target
		}
	}
	return s.localPath(target)
}

// odd tells what browsers drop from an address, or take for something else: they read a backslash as a slash.
func odd(r rune) bool { return r == '\\' || r <= ' ' || r == 0x7f }

// localPath is target when it is a path of this service, else the docs. What a browser might read as another host
// is no path: "//host", and "/\host", since browsers take a backslash for a slash.
func (s *Server) localPath(target string) string {
	u, err := url.Parse(target)
	switch {
	case err != nil, u.Scheme != "", u.Host != "", u.User != nil,
		!strings.HasPrefix(target, s.base+"/"), strings.HasPrefix(target, "//"),
		strings.ContainsFunc(target, odd):
		return s.base + "/docs"
	}
	return target
}
