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

// signOut ends the sessions of revokeSent, and clears both cookies, also of a browser that has lost one.
func (s *Service) signOut(c echo.Context) error {
	r := c.Request()
	cookies, everywhere := session.ReadCookies(r.Header), r.FormValue("everywhere") == "true"
	if err := s.revokeSent(r.Context(), cookies, everywhere); err != nil {
		return err
	}
	return s.leaveSession(c, cookies)
}

func (s *Service) leaveSession(c echo.Context, cookies session.Cookies) error {
	s.Sessions.ClearCookies(c.Response().Header(), cookies)
	if s.Development {
		return s.LeadTo(c, "/sign-in")
	}
	return s.LeadTo(c, "/docs")
}

// LeadTo ends a POST: it leads a form to a path of this service, and a script gets a 204.
func (s *Service) LeadTo(c echo.Context, path string) error {
	c.Response().Header().Set("Cache-Control", "no-store")
	if !isNavigation(c.Request()) {
		return c.NoContent(http.StatusNoContent)
	}
	return c.Redirect(http.StatusSeeOther, s.Pages.Base+path)
}

// revokeSent revokes the sessions of all refresh tokens sent, spent ones included, or without any those of the JWTs, also expired ones.
// With everywhere it revokes all sessions of the user, if one that was sent is live. After a revocation later errors become
// models.ErrUnavailable: others would mean that nothing happened.
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

// liveSessions returns the sessions with a proof in the cookies: the current refresh token, or a valid JWT of a session that is not
// revoked. Those of refresh tokens come first.
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

// namedBy returns the sessions of the JWTs, with expired also of expired ones.
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
