package server

import (
	"context"
	"errors"
	"net/url"
	"time"

	"worldevents/gen"
	"worldevents/models"
)

// GetSession tells whether the browser is signed in, and refreshes a session whose JWT has merely expired.
func (s *Server) GetSession(ctx context.Context, _ gen.GetSessionRequestObject) (gen.GetSessionResponseObject, error) {
	header := callOf(ctx).request.Header
	token, err := cookieValue(header, tokenCookie)
	if err != nil {
		return sessionRefused(gen.SessionRefusalErrorInvalidToken), nil
	}
	user, err := s.sessions.verify(token)
	switch {
	case err == nil:
		return sessionActive(user.Username, user.ExpiresAt.time()), nil
	case errors.Is(err, errNoToken):
		return sessionRefused(gen.SessionRefusalErrorNoToken), nil
	case !errors.Is(err, errExpired):
		return sessionRefused(gen.SessionRefusalErrorInvalidToken), nil
	}

	old, err := cookieValue(header, refreshCookie)
	if err == nil && old == "" {
		return sessionRefused(gen.SessionRefusalErrorNoRefreshToken), nil
	}
	session, err := s.refresh(ctx, user.Subject, old)
	if errors.Is(err, models.ErrRefreshToken) {
		return sessionRefused(gen.SessionRefusalErrorInvalidRefreshToken), nil
	}
	if err != nil {
		return nil, err
	}
	return sessionActive(session.Username, session.Expires), nil
}

// RefreshSession replaces both cookies. Only the refresh token counts.
func (s *Server) RefreshSession(ctx context.Context, _ gen.RefreshSessionRequestObject) (gen.RefreshSessionResponseObject, error) {
	old, err := cookieValue(callOf(ctx).request.Header, refreshCookie)
	if err == nil && old == "" {
		return gen.RefreshSession400JSONResponse{Body: gen.RefreshRefusal{Error: gen.RefreshRefusalErrorNoRefreshToken}}, nil
	}
	session, err := s.refresh(ctx, "", old) // cookies that disagree are "", which no refresh token is
	if errors.Is(err, models.ErrRefreshToken) {
		return gen.RefreshSession400JSONResponse{Body: gen.RefreshRefusal{Error: gen.RefreshRefusalErrorInvalidRefreshToken}}, nil
	}
	if err != nil {
		return nil, err
	}
	return gen.RefreshSession200JSONResponse{
		Body: gen.Success{Success: true},
		Headers: gen.RefreshSession200ResponseHeaders{
			SessionUser: headerName(session.Username), SessionExpires: gen.DateTime(session.Expires),
		},
	}, nil
}

func sessionActive(username string, expires time.Time) gen.GetSession200JSONResponse {
	return gen.GetSession200JSONResponse{
		Body:    gen.SessionActive{Authenticated: true},
		Headers: gen.GetSession200ResponseHeaders{SessionUser: headerName(username), SessionExpires: gen.DateTime(expires)},
	}
}

func sessionRefused(why gen.SessionRefusalError) gen.GetSession400JSONResponse {
	return gen.GetSession400JSONResponse{Body: gen.SessionRefusal{Authenticated: false, Error: why}}
}

// headerName makes a username fit for a header; decodeURIComponent undoes it. A JWT may name nobody.
func headerName(username string) *string {
	if username == "" {
		return nil
	}
	escaped := url.PathEscape(username)
	return &escaped
}
