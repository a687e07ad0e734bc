package server

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"worldevents/models"
	"worldevents/server/internal/observe"
	"worldevents/server/internal/pages"
	"worldevents/server/internal/session"
)

// registerSignIn serves the pages around the session: sign-out always, sign-in by name in development, and sign-in
// with an identity provider if there is one. In production /sign-in leads straight to the provider.
func (s *Server) registerSignIn() {
	s.router.Post("signOut", "/sign-out", setStoreDeadline(s.store.Timeout())(s.signOut))
	if s.development {
		s.router.Get("showSignIn", "/sign-in", s.signInPage, s.refuseUnknownHost)
		s.router.Post("signIn", "/sign-in", parseForm(s.signIn), s.countSignIns(byForm), s.refuseUnknownHost)
	}
	if s.provider != nil {
		begin := "/sign-in"
		if s.development {
			begin = "/sign-in/provider"
		}
		onErrors, count := pages.ShowErrors("error.html"), s.countSignIns(byProvider)
		around := []echo.MiddlewareFunc{onErrors, count, s.logRefusals}
		failure := errProvider.kind()
		s.router.Get("beginSignIn", begin, s.beginSignIn, around...).Expect(failure)
		s.router.Get("finishSignIn", "/sign-in/callback", s.finishSignIn, around...).Expect(failure)
		s.router.Post("backChannelLogout", "/sign-in/back-channel-logout", parseForm(s.backChannelLogout)).Expect(failure)
	}
}

func (s *Server) signInPage(c echo.Context) error {
	return s.pages.Render(c, http.StatusOK, "sign-in.html", s.signInPolicy(), pages.Page{ReturnTo: c.QueryParam("return_to")})
}

// refuseUnknownHost refuses a Host that is neither this machine, an IP address nor the host of the public address. Somebody
// else's name can lead here as well (DNS rebinding): a page of that name would be one of this origin to browsers, and sign
// in by itself.
func (s *Server) refuseUnknownHost(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		host := (&url.URL{Host: strings.ToLower(c.Request().Host)}).Hostname()
		_, err := netip.ParseAddr(host)
		if err == nil || host == "localhost" || strings.HasSuffix(host, ".localhost") || host == strings.ToLower(s.host) {
			return next(c)
		}
		return errUnknownHost
	}
}

// signInPolicy is pages.Policy with the origins that the form may lead to: browsers apply form-action to its redirect.
func (s *Server) signInPolicy() string {
	const own = "form-action 'self'"
	return strings.Replace(pages.Policy, own, strings.Join(append([]string{own}, s.returnOrigins...), " "), 1)
}

// signIn signs in by name, as anybody. It exists in development only.
func (s *Server) signIn(c echo.Context) error {
	r := c.Request()
	returnTo := r.Form.Get("return_to")
	issued, err := s.SignIn(r.Context(), models.Who{Username: r.PostForm.Get("username")}, true)
	again := pages.Page{ReturnTo: returnTo, Username: r.PostForm.Get("username")}
	switch {
	case errors.Is(err, models.ErrUsername):
		again.Error = models.ErrUsername.Error()
		requestFrom(r.Context()).Code = errValidation.code
		return s.pages.Render(c, http.StatusBadRequest, "sign-in.html", s.signInPolicy(), again)
	case errors.Is(err, models.ErrBlocked):
		again.Error = errBlocked.message
		requestFrom(r.Context()).Code = errBlocked.code
		return s.pages.Render(c, errBlocked.status, "sign-in.html", s.signInPolicy(), again)
	case err != nil:
		return err
	}
	s.sessions.ReplaceCookies(c.Response().Header(), session.ReadCookies(r.Header), issued)
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.Redirect(http.StatusSeeOther, s.safeReturnURL(returnTo))
}

// signOut revokes what revokeSent says and clears both cookies. It works without a session: a browser that has lost one
// cookie must still get rid of the other.
func (s *Server) signOut(c echo.Context) error {
	r := c.Request()
	cookies, everywhere := session.ReadCookies(r.Header), r.FormValue("everywhere") == "true"
	if err := s.revokeSent(r.Context(), cookies, everywhere); err != nil {
		return err
	}
	return s.leaveSession(c, cookies)
}

// leaveSession clears both cookies of a session that has ended.
func (s *Server) leaveSession(c echo.Context, cookies session.Cookies) error {
	s.sessions.ClearCookies(c.Response().Header(), cookies)
	if s.development {
		return s.leadTo(c, "/sign-in")
	}
	return s.leadTo(c, "/docs")
}

// leadTo responds to a POST that is done: a form is led to a path of this service, a script is told no more.
func (s *Server) leadTo(c echo.Context, path string) error {
	c.Response().Header().Set("Cache-Control", "no-store")
	if !isNavigation(c.Request()) {
		return c.NoContent(http.StatusNoContent)
	}
	return c.Redirect(http.StatusSeeOther, s.base+path)
}

// revokeSent revokes the session of every refresh token that was sent, spent ones included. If that is none, it revokes
// those that the JWTs name, which may have expired. With everywhere it revokes all sessions of the user, if what was sent
// shows that one of them is live.
func (s *Server) revokeSent(ctx context.Context, cookies session.Cookies, everywhere bool) error {
	if everywhere {
		live, err := s.liveSessions(ctx, cookies)
		if err != nil {
			return err
		}
		for _, session := range live {
			revoked, err := s.store.RevokeUser(ctx, session.UserID, models.ID{})
			if err != nil {
				return err
			}
			s.logSignedOut(ctx, revoked, "everywhere")
		}
	}
	if tokens := cookies.RefreshTokens(); len(tokens) > 0 {
		revoked, known, err := s.store.RevokeTokens(ctx, tokens)
		s.logSignedOut(ctx, revoked, "")
		if err != nil || known {
			return err
		}
	}
	for _, token := range cookies.Tokens() {
		named, err := s.sessions.Verify(token)
		if err != nil && !errors.Is(err, session.ErrExpired) {
			continue
		}
		caller, err := named.Caller()
		if err != nil || caller.SessionID.IsZero() {
			continue
		}
		revoked, err := s.store.RevokeSession(ctx, caller)
		if err != nil {
			return err
		}
		s.logSignedOut(ctx, revoked, "")
	}
	return nil
}

// liveSessions are the sessions of which the cookies hold a proof: the current refresh token, or a JWT that has not
// expired and whose session is not revoked. Those of refresh tokens come first.
func (s *Server) liveSessions(ctx context.Context, cookies session.Cookies) ([]models.Caller, error) {
	live, err := s.refreshableSessions(ctx, cookies)
	if err != nil {
		return nil, err
	}
	var named []models.Caller
	for _, token := range cookies.Tokens() {
		if user, err := s.sessions.Verify(token); err == nil {
			if caller, err := user.Caller(); err == nil && !caller.SessionID.IsZero() {
				named = append(named, caller)
			}
		}
	}
	out, err := s.store.SignedOut(ctx, named)
	if err != nil {
		return nil, err
	}
	for _, caller := range named {
		if !out[caller] {
			live = append(live, caller)
		}
	}
	return live, nil
}

// refreshableSessions are the sessions whose current refresh tokens the cookies hold. Nothing is spent.
func (s *Server) refreshableSessions(ctx context.Context, cookies session.Cookies) (found []models.Caller, err error) {
	for _, token := range cookies.RefreshTokens() {
		session, err := s.store.FindSession(ctx, token)
		switch {
		case err == nil:
			found = append(found, session)
		case !errors.Is(err, models.ErrRefreshToken):
			return nil, err
		}
	}
	return found, nil
}

func (s *Server) logSignedOut(ctx context.Context, sessions []models.Caller, cause string) {
	for _, session := range sessions {
		s.observer.SecurityEvent(ctx, observe.SignedOut, session, cause)
	}
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
