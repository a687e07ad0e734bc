package server

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"worldevents/models"
)

// registerSignIn serves the pages around the session: sign-in in development, sign-out always.
func (s *Server) registerSignIn(e *echo.Echo) {
	e.POST("/sign-out", s.signOut)
	if s.development {
		e.GET("/sign-in", s.signInPage)
		e.POST("/sign-in", s.signIn)
	}
}

func (s *Server) signInPage(c echo.Context) error {
	return s.render(c, http.StatusOK, "sign-in.html", pagePolicy, page{ReturnTo: c.QueryParam("return_to")})
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
		return s.render(c, http.StatusBadRequest, "sign-in.html", pagePolicy, page{
			ReturnTo: returnTo, Username: r.PostForm.Get("username"), Fault: models.ErrUsername.Error(),
		})
	}
	if err != nil {
		return err
	}
	s.sessions.setCookies(c.Response().Header(), &session)
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.Redirect(http.StatusSeeOther, s.localPath(returnTo))
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

// localPath is target when it is a path of this service, else the docs. What a browser might read as another host
// is no path: "//host", and "/\host", since browsers take a backslash for a slash.
func (s *Server) localPath(target string) string {
	u, err := url.Parse(target)
	switch {
	case err != nil, u.Scheme != "", u.Host != "", u.User != nil,
		!strings.HasPrefix(target, s.base+"/"), strings.HasPrefix(target, "//"),
		strings.ContainsFunc(target, func(r rune) bool { return r == '\\' || r <= ' ' || r == 0x7f }):
		return s.base + "/docs"
	}
	return target
}
