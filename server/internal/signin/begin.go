package signin

import (
	"context"

	"worldevents/models"
	"worldevents/server/internal/observe"
	"worldevents/server/internal/session"
)

// ByName issues a session to a user. With create it adds an unknown username; otherwise it returns models.ErrNoUser. It returns
// models.ErrUsername for an invalid one. The user keeps SessionPolicy.PerUser sessions, those refreshed last.
func (s *Service) ByName(ctx context.Context, who models.Who, create bool) (session.Session, error) {
	return s.begin(ctx, func(in models.SignIn) (models.Grant, error) {
		return s.Store.SignIn(ctx, who, create, in)
	})
}

func (s *Service) begin(ctx context.Context, signIn func(models.SignIn) (models.Grant, error)) (session.Session, error) {
	token := session.NewRefreshToken()
	in := models.SignIn{RefreshToken: token.RefreshToken}
	in.Device, in.Network = origin(ctx)
	req := observe.FromContext(ctx) // nil for a command
	if req != nil {
		in.Replaces = session.ReadCookies(req.HTTP.Header).RefreshTokens()
	}
	grant, err := signIn(in)
	if err != nil {
		return session.Session{}, err
	}
	s.Observer.SecurityEvent(ctx, observe.SignedIn, models.Caller{UserID: grant.ID, SessionID: grant.SessionID}, "")
	issued := s.Sessions.Issue(grant, token)
	if req != nil {
		req.SetUser(issued.UserID)
	}
	return issued, nil
}
