package models_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// Of any callers those are active whose user is not blocked and whose session is theirs and not revoked.
func TestSignedOut(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		caller := func(name string) models.Caller {
			session := s.SignIn(name).Session
			return models.Caller{UserID: id(t, session.UserID), SessionID: id(t, session.SessionID)}
		}
		alice, bob, carol, dan := caller("alice"), caller("bob"), caller("carol"), caller("dan")
		servicetest.Must(s.Store.RevokeSession(t.Context(), bob))(t)
		s.Database.Exec("UPDATE users SET blocked_at = ? WHERE username = 'carol'", time.Now().UTC())
		user := func(c models.Caller) models.Caller { return models.Caller{UserID: c.UserID} }
		want := map[models.Caller]bool{
			alice: true, user(alice): true, // without a session only the user counts
			bob: false, user(bob): true,
			user(carol): false,
			dan:         true, user(dan): true,
			{UserID: alice.UserID, SessionID: dan.SessionID}: false, // a session of somebody else
			{UserID: models.ID{1}, SessionID: models.ID{2}}:  false,
			{UserID: models.ID{1}}:                           false,
			{UserID: alice.UserID, SessionID: models.ID{2}}:  false,
		}
		all := append(slices.Collect(maps.Keys(want)), alice, bob) // twice
		got := servicetest.Must(s.Store.SignedOut(t.Context(), all))(t)
		for c := range want {
			servicetest.Is(t, got[c], !want[c], "%v is signed out", c)
		}
		servicetest.Is(t, len(servicetest.Must(s.Store.SignedOut(t.Context(), nil))(t)), 0, "of nobody are signed out")
	})
}
