package server

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"worldevents/gen"
	"worldevents/models"
	"worldevents/server/internal/observe"
	"worldevents/server/internal/session"
)

// Session is a signed-in user with both tokens.
type Session = session.Session

// GetSession reports whether the browser is signed in, and refreshes a session whose JWT has merely expired.
func (s *Server) GetSession(ctx context.Context, _ gen.GetSessionRequestObject) (gen.GetSessionResponseObject, error) {
	cookies := session.ReadCookies(requestFrom(ctx).HTTP.Header)
	user, err := s.sessions.VerifyCookies(cookies)
	switch {
	case err == nil:
		return sessionActive(ctx, user), nil
	case errors.Is(err, session.ErrNoToken):
		return sessionRefused(ctx, gen.SessionRefusalErrorNoToken), nil
	case !errors.Is(err, session.ErrExpired):
		return sessionRefused(ctx, gen.SessionRefusalErrorInvalidToken), nil
	}

	caller, err := user.Caller()
	if err != nil {
		caller = nobody
	}
	refreshed, err := s.refresh(ctx, caller, cookies)
	switch {
	case err == nil:
		return sessionActive(ctx, refreshed), nil
	case errors.Is(err, session.ErrNoToken):
		return sessionRefused(ctx, gen.SessionRefusalErrorNoRefreshToken), nil
	case errors.Is(err, models.ErrRefreshToken), errors.Is(err, session.ErrInvalid):
		return sessionRefused(ctx, gen.SessionRefusalErrorInvalidRefreshToken), nil
	}
	return nil, err
}

// nobody is the caller of a JWT that names no session of ours. No row belongs to it, so every refresh token is refused.
var nobody = models.Caller{UserID: models.ID{1}, SessionID: models.ID{1}}

// RefreshSession replaces both cookies. It looks at the refresh token alone.
func (s *Server) RefreshSession(ctx context.Context, _ gen.RefreshSessionRequestObject) (gen.RefreshSessionResponseObject, error) {
	refreshed, err := s.refresh(ctx, models.Caller{}, session.ReadCookies(requestFrom(ctx).HTTP.Header))
	switch {
	case errors.Is(err, session.ErrNoToken):
		return refreshRefused(ctx, gen.RefreshRefusalErrorNoRefreshToken), nil
	case errors.Is(err, models.ErrRefreshToken), errors.Is(err, session.ErrInvalid):
		return refreshRefused(ctx, gen.RefreshRefusalErrorInvalidRefreshToken), nil
	case err != nil:
		return nil, err
	}
	return gen.RefreshSession200JSONResponse{
		Body: gen.Success{Success: true},
		Headers: gen.RefreshSession200ResponseHeaders{
			SessionUser: headerName(refreshed.Username), SessionExpires: gen.DateTime(refreshed.Expires),
		},
	}, nil
}

// SignIn issues a session to a user, for a command. With create it adds an unknown username; otherwise it returns models.ErrNoUser. It
// returns models.ErrUsername for an impossible name.
func (s *Server) SignIn(ctx context.Context, who models.Who, create bool) (Session, error) {
	return s.signIn.ByName(ctx, who, create)
}

// refresh spends the refresh token that was sent and sets both cookies. The token must belong to caller, unless that is zero. It sets no
// cookie when it fails: with session.ErrNoToken, session.ErrInvalid, models.ErrRefreshToken, or an error of the store.
func (s *Server) refresh(ctx context.Context, caller models.Caller, sent session.Cookies) (Session, error) {
	old, err := sent.RefreshToken()
	if err != nil {
		if errors.Is(err, session.ErrInvalid) {
			s.observer.RefreshRefused(ctx, err)
		}
		return Session{}, err
	}
	token := old.Next()
	grant, err := s.store.RefreshSession(ctx, caller, old.RefreshToken, token.Token)
	switch {
	case errors.Is(err, models.ErrReused):
		s.observer.CountRefresh(observe.RefreshReused)
		s.observer.SecurityEvent(ctx, observe.Reused, models.Caller{UserID: grant.ID, SessionID: grant.SessionID}, "a spent refresh token came back after the leeway: session revoked")
		return Session{}, err
	case errors.Is(err, models.ErrRefreshToken):
		s.observer.RefreshRefused(ctx, err)
		return Session{}, err
	case err != nil:
		s.observer.CountRefresh(observe.RefreshFailed)
		return Session{}, err
	}
	refreshed := s.sessions.Issue(grant, token)
	s.observer.CountRefresh(observe.RefreshDone)
	req := requestFrom(ctx)
	req.SetUser(refreshed.UserID)
	s.sessions.SetCookies(req.header, refreshed)
	return refreshed, nil
}

func sessionActive(ctx context.Context, user Session) gen.GetSession200JSONResponse {
	requestFrom(ctx).SetUser(user.UserID)
	return gen.GetSession200JSONResponse{
		Body:    gen.SessionActive{Authenticated: true},
		Headers: gen.GetSession200ResponseHeaders{SessionUser: headerName(user.Username), SessionExpires: gen.DateTime(user.Expires)},
	}
}

func sessionRefused(ctx context.Context, why gen.SessionRefusalError) gen.GetSession400JSONResponse {
	requestFrom(ctx).Code = codeOf(string(why))
	return gen.GetSession400JSONResponse{Body: gen.SessionRefusal{Authenticated: false, Error: why}}
}

func refreshRefused(ctx context.Context, why gen.RefreshRefusalError) gen.RefreshSession400JSONResponse {
	requestFrom(ctx).Code = codeOf(string(why))
	return gen.RefreshSession400JSONResponse{Body: gen.RefreshRefusal{Error: why}}
}

// codeOf spells the reason of a refusal like an error code: "no_token" for "No token".
func codeOf(why string) string { return strings.ReplaceAll(strings.ToLower(why), " ", "_") }

// headerName escapes a username for a header, as decodeURIComponent reads it. It returns nil without a username.
func headerName(username string) *string {
	if username == "" {
		return nil
	}
	escaped := url.PathEscape(username)
	return &escaped
}
