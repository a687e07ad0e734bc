package server

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"worldevents/models"
	"worldevents/server/internal/session"
)

// registerSignIn serves the pages around the session: sign-out always, sign-in by name in development, and sign-in
// with an identity provider if there is one. In production /sign-in leads straight to the provider.
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
		e.GET(begin, s.beginSignIn, s.newOperation("beginSignIn", http.MethodGet).middleware, s.htmlErrors)
		e.GET("/sign-in/callback", s.finishSignIn, s.newOperation("finishSignIn", http.MethodGet).middleware, s.htmlErrors)
	}
}

func (s *Server) signInPage(c echo.Context) error {
	return s.render(c, http.StatusOK, "sign-in.html", s.signInPolicy(), page{ReturnTo: c.QueryParam("return_to")})
}

// signInPolicy is pagePolicy with the origins that the form may lead to: browsers apply form-action to its redirect.
func (s *Server) signInPolicy() string {
	const own = "form-action 'self'"
	return strings.Replace(pagePolicy, own, strings.Join(append([]string{own}, s.returnOrigins...), " "), 1)
}

// maxForm bounds the sign-in form, in bytes.
const maxForm = 8 << 10

// signIn signs in by name, as anybody. It exists in development only.
func (s *Server) signIn(c echo.Context) error {
	r := c.Request()
	r.Body = http.MaxBytesReader(c.Response(), r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return errValidation.with(map[string]string{"body": "must be a form of at most 8 KiB"})
	}
	returnTo := r.Form.Get("return_to")
	issued, err := s.SignIn(r.Context(), r.PostForm.Get("username"), true)
	if errors.Is(err, models.ErrUsername) {
		return s.render(c, http.StatusBadRequest, "sign-in.html", s.signInPolicy(), page{
			ReturnTo: returnTo, Username: r.PostForm.Get("username"), Error: models.ErrUsername.Error(),
		})
	}
	if err != nil {
		return err
	}
	s.sessions.ReplaceCookies(c.Response().Header(), session.ReadCookies(r.Header), issued)
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.Redirect(http.StatusSeeOther, s.safeReturnURL(returnTo))
}

// signOut revokes the session and clears both cookies. It works without a session: a browser that has lost one cookie
// must still get rid of the other.
func (s *Server) signOut(c echo.Context) error {
	r := c.Request()
	cookies := session.ReadCookies(r.Header)
	if err := s.revoke(r.Context(), cookies); err != nil {
		return err
	}
	s.sessions.ClearCookies(c.Response().Header(), cookies)
	c.Response().Header().Set("Cache-Control", "no-store")
	if !isNavigation(r) {
		return c.NoContent(http.StatusNoContent)
	}
	if s.development {
		return c.Redirect(http.StatusSeeOther, s.base+"/sign-in")
	}
	return c.Redirect(http.StatusSeeOther, s.base+"/docs")
}

// revoke ends the session of every refresh token that was sent. Only if there is one at most, and it is not current, the
// JWT says whose session ends.
func (s *Server) revoke(ctx context.Context, cookies session.Cookies) error {
	var hashes []models.Hash
	for _, refreshToken := range cookies.RefreshTokens() {
		if hash, ok := session.HashRefreshToken(refreshToken); ok {
			hashes = append(hashes, hash)
		}
	}
	var userID models.ID
	if token, err := cookies.Token(); err == nil && len(hashes) <= 1 {
		if user, err := s.sessions.Verify(token); err == nil || errors.Is(err, session.ErrExpired) {
			userID, _ = models.ParseID(user.UserID)
		}
	}
	if len(hashes) == 0 && !userID.IsZero() {
		hashes = []models.Hash{{}} // the zero hash is nobody's
	}
	for _, hash := range hashes {
		if err := s.store.SignOut(ctx, hash, userID); err != nil {
			return err
		}
	}
	return nil
}

// isNavigation reports whether the browser will show the response, as after a form; a script's fetch handles it itself.
// Fetch Metadata says which, and Accept does in browsers that are too old for it.
func isNavigation(r *http.Request) bool {
	if mode := r.Header.Get("Sec-Fetch-Mode"); mode != "" {
		return mode == "navigate"
	}
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}

// maxReturn bounds a return URL, in bytes: it must fit into a cookie.
const maxReturn = 2000

// safeReturnURL returns target if a sign-in may lead there: to a URL of an allowed origin or to a path of this service.
// Otherwise it returns the docs. The origin is matched as text, so that no parser can disagree with the browser's.
func (s *Server) safeReturnURL(target string) string {
	if len(target) > maxReturn {
		target = ""
	}
	for _, origin := range s.returnOrigins {
		rest, ok := strings.CutPrefix(target, origin)
		if ok && (rest == "" || strings.Contains("/?#", rest[:1])) && !strings.ContainsFunc(rest, unsafeInURL) {
			return target
		}
	}
	return s.safePath(target)
}

// unsafeInURL reports whether browsers drop r from a URL or read it as something else: a backslash as a slash.
func unsafeInURL(r rune) bool { return r == '\\' || r <= ' ' || r == 0x7f }

// safePath returns target if it is a path of this service, otherwise the docs. A text that a browser might read as
// another host is no path: "//host", and "/\host", because browsers read a backslash as a slash.
func (s *Server) safePath(target string) string {
	u, err := url.Parse(target)
	switch {
	case err != nil, u.Scheme != "", u.Host != "", u.User != nil,
		!strings.HasPrefix(target, s.base+"/"), strings.HasPrefix(target, "//"),
		strings.ContainsFunc(target, unsafeInURL):
		return s.base + "/docs"
	}
	return target
}
