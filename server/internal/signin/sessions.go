package signin

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"worldevents/models"
	"worldevents/server/internal/observe"
	"worldevents/server/internal/pages"
	"worldevents/server/internal/session"
)

// sessionsPage lists the sessions of a user by the current refresh token. It spends nothing and sets no cookie: a late response must not
// undo the work of another tab.
func (s *Service) sessionsPage(c echo.Context) error {
	var p pages.Page
	own, username, err := s.Current(c.Request())
	if err == nil {
		p.Current, p.Others, err = s.sessionEntries(c.Request().Context(), own)
	}
	if err != nil && !errors.Is(err, models.ErrSignedOut) {
		return err
	}
	if p.Current != nil {
		p.User = username
	}
	return s.Pages.RenderAs(c, http.StatusOK, "sessions.html", pages.ScriptPolicy, p)
}

// Current returns the session of the current refresh token, which it does not spend, and the username in a JWT beside it, or "". It returns
// models.ErrSignedOut without such a session, and for cookies that disagree.
func (s *Service) Current(r *http.Request) (own models.Caller, username string, err error) {
	cookies := session.ReadCookies(r.Header)
	if cookies.Conflict() {
		return own, "", models.ErrSignedOut
	}
	found, err := s.Store.FindSessions(r.Context(), cookies.RefreshTokens())
	switch {
	case err != nil:
		return own, "", err
	case len(found) == 0:
		return own, "", models.ErrSignedOut
	}
	return found[0], s.usernameOf(found[0].UserID, cookies), nil
}

// sessionEntries returns own and the other sessions of its user, those refreshed last first, or nil if own has ended.
func (s *Service) sessionEntries(ctx context.Context, own models.Caller) (current *pages.Session, others []pages.Session, err error) {
	sessions, err := s.Store.Sessions(ctx, own.UserID)
	at := slices.IndexFunc(sessions, func(session models.Session) bool { return session.ID == own.SessionID })
	if at < 0 {
		return nil, nil, err
	}
	entry := func(session models.Session, here string) pages.Session {
		return pages.Session{
			Base: s.Pages.Base, ID: session.ID.String(), Device: session.Device, Network: networkInWords(session.Network, here),
			Begun: session.CreatedAt.UTC(), Active: session.RefreshedAt.UTC(),
		}
	}
	mine := entry(sessions[at], "")
	for i, session := range sessions {
		if i != at {
			others = append(others, entry(session, sessions[at].Network))
		}
	}
	return &mine, others, err
}

// usernameOf returns the username in a JWT of the user, or "". The JWT may have expired.
func (s *Service) usernameOf(user models.ID, cookies session.Cookies) string {
	for _, token := range cookies.Tokens() {
		named, _ := s.Sessions.Verify(token) // empty if the JWT is invalid
		if named.UserID == user.String() {
			return named.Username
		}
	}
	return ""
}

// fromCurrent handles a form of the session of Current. It leads others back to the page; a script gets a 401.
func (s *Service) fromCurrent(handle func(c echo.Context, own models.Caller) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		own, _, err := s.Current(c.Request())
		switch {
		case errors.Is(err, models.ErrSignedOut):
			return s.LeadNobody(c, "/sessions")
		case err != nil:
			return err
		}
		return handle(c, own)
	}
}

// LeadNobody leads a browser without a session to the page; a script gets models.ErrSignedOut.
func (s *Service) LeadNobody(c echo.Context, page string) error {
	if isNavigation(c.Request()) {
		return s.LeadTo(c, page)
	}
	return models.ErrSignedOut
}

// endSession ends one of the user's sessions. Ending the current one signs out.
func (s *Service) endSession(c echo.Context, own models.Caller) error {
	ctx := c.Request().Context()
	id, err := models.ParseID(c.Request().PostForm.Get("id"))
	if err != nil { // like another user's session
		return s.LeadTo(c, "/sessions")
	}
	ended, err := s.Store.RevokeSession(ctx, models.Caller{UserID: own.UserID, SessionID: id})
	if err != nil {
		return err
	}
	if id == own.SessionID {
		s.logEnded(ctx, observe.SignedOut, ended, "")
		return s.leaveSession(c, session.ReadCookies(c.Request().Header))
	}
	s.logEnded(ctx, observe.Revoked, ended, "ended from session "+own.SessionID.String())
	return s.LeadTo(c, "/sessions")
}

func (s *Service) endOtherSessions(c echo.Context, own models.Caller) error {
	ctx := c.Request().Context()
	ended, err := s.Store.RevokeUser(ctx, own.UserID, own.SessionID)
	if err != nil {
		return err
	}
	s.logEnded(ctx, observe.Revoked, ended, "ended from session "+own.SessionID.String())
	return s.LeadTo(c, "/sessions")
}

func (s *Service) logEnded(ctx context.Context, event string, sessions []models.Caller, cause string) {
	for _, session := range sessions {
		s.Observer.SecurityEvent(ctx, event, session, cause)
	}
}
