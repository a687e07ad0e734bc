package signin

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"worldevents/models"
	"worldevents/server/internal/observe"
	"worldevents/server/internal/session"
)

// signOut revokes what revokeSent says and clears both cookies. It works without a session: a browser that has lost one
// cookie must still get rid of the other.
func (s *Service) signOut(c echo.Context) error {
	r := c.Request()
	cookies, everywhere := session.ReadCookies(r.Header), r.FormValue("everywhere") == "true"
	if err := s.revokeSent(r.Context(), cookies, everywhere); err != nil {
		return err
	}
	return s.leaveSession(c, cookies)
}

// leaveSession clears both cookies of a session that has ended.
func (s *Service) leaveSession(c echo.Context, cookies session.Cookies) error {
	s.Sessions.ClearCookies(c.Response().Header(), cookies)
	if s.Development {
		return s.LeadTo(c, "/sign-in")
	}
	return s.LeadTo(c, "/docs")
}

// LeadTo responds to a POST that is done: a form is led to a path of this service, a script is told no more.
func (s *Service) LeadTo(c echo.Context, path string) error {
	c.Response().Header().Set("Cache-Control", "no-store")
	if !isNavigation(c.Request()) {
		return c.NoContent(http.StatusNoContent)
	}
	return c.Redirect(http.StatusSeeOther, s.Pages.Base+path)
}

// revokeSent revokes the session of every refresh token that was sent, spent ones included. If that is none, it revokes those that the JWTs
// name, which may have expired. With everywhere it revokes all sessions of the user, if what was sent shows that one of them is live. Once
// something is revoked, what is refused then is models.ErrUnavailable: other errors would say that nothing has happened.
func (s *Service) revokeSent(ctx context.Context, cookies session.Cookies, everywhere bool) (err error) {
	var done []models.Caller
	defer func() {
		if err != nil && len(done) > 0 {
			err = fmt.Errorf("%w: %d sessions are revoked, but %v", models.ErrUnavailable, len(done), err)
		}
	}()
	if everywhere {
		live, err := s.liveSessions(ctx, cookies)
		if err != nil {
			return err
		}
		for _, session := range live {
			revoked, err := s.Store.RevokeUser(ctx, session.UserID, models.ID{})
			if err != nil {
				return err
			}
			s.logEnded(ctx, observe.SignedOut, revoked, "everywhere")
			done = append(done, revoked...)
		}
	}
	if tokens := cookies.RefreshTokens(); len(tokens) > 0 {
		revoked, known, err := s.Store.RevokeTokens(ctx, tokens)
		s.logEnded(ctx, observe.SignedOut, revoked, "")
		done = append(done, revoked...)
		if err != nil || known {
			return err
		}
	}
	for _, caller := range s.namedBy(cookies, true) {
		revoked, err := s.Store.RevokeSession(ctx, caller)
		if err != nil {
			return err
		}
		s.logEnded(ctx, observe.SignedOut, revoked, "")
		done = append(done, revoked...)
	}
	return nil
}

// liveSessions are the sessions of which the cookies hold a proof: the current refresh token, or a JWT that has not
// expired and whose session is not revoked. Those of refresh tokens come first.
func (s *Service) liveSessions(ctx context.Context, cookies session.Cookies) ([]models.Caller, error) {
	live, err := s.Store.FindSessions(ctx, cookies.RefreshTokens())
	if err != nil {
		return nil, err
	}
	named := s.namedBy(cookies, false)
	out, err := s.Store.SignedOut(ctx, named)
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

// namedBy returns the sessions that the JWTs name, also expired ones if expired says so.
func (s *Service) namedBy(cookies session.Cookies, expired bool) (named []models.Caller) {
	for _, token := range cookies.Tokens() {
		user, err := s.Sessions.Verify(token)
		if err != nil && !(expired && errors.Is(err, session.ErrExpired)) {
			continue
		}
		if caller, err := user.Caller(); err == nil && !caller.SessionID.IsZero() {
			named = append(named, caller)
		}
	}
	return named
}
