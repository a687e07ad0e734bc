package servicetest

import (
	"crypto/rand"
	"net/url"
	"testing"
	"time"

	"worldevents/models"
)

// UseAll does all that the service and the commands do to a database, each way at least once. The world crowded is there,
// with a large event.
func UseAll(t *testing.T, s *Service) {
	t.Helper()
	ctx, store := t.Context(), s.Store
	done := func(_, _ any, err error) {
		t.Helper()
		NoError(t, err)
	}
	signIn := func() (in models.SignIn) {
		rand.Read(in.Handle[:])
		in.Replaces = []models.RefreshToken{{Handle: in.Handle}}
		return in
	}
	alice, bob := s.SignIn("alice"), s.SignIn("bob")
	alice.Get(SessionPath).Is(200, Authenticated)
	alice.Get(RefreshPath).Is(200, Success)
	id := alice.Create("w", "n", When)
	bob.Post("/api/event/join/"+id, "").Is(200, Success)
	bob.Post("/api/event/join/"+id, "").Is(200, Success)
	for range 3 { // the list is not read again
		tag := bob.Get("/api/event/w").Header.Get("ETag")
		bob.Get("/api/event/w", IfNoneMatch(tag)).Is(304, "")
	}
	for _, query := range []string{"", "?limit=1", "?from=2029-01-01T00:00:00Z", "?to=2039-01-01T00:00:00Z&limit=2"} {
		Walk(t, s, bob, "/api/event/crowded"+query, EventIDs)
	}
	bob.Delete("/api/event/"+id).Is(200, Success)
	bob.Delete("/api/event/"+id).Is(200, Success)
	useEventsPage(t, alice, id)

	Must(store.PruneChanges(ctx))(t)
	Must(store.SignInExternal(ctx, "https://login.example.org", "1", "paul", signIn()))(t)
	Must(store.SignInExternal(ctx, "https://login.example.org", "2", "paul", signIn()))(t)
	for _, whose := range [][2]string{{"1", ""}, {"", "s"}, {"1", "s"}} {
		Must(store.RevokeExternal(ctx, "https://login.example.org", whose[0], whose[1], time.Now()))(t)
	}
	Must(store.RenameUser(ctx, models.Who{Username: "paul"}, "ringo"))(t)
	Must(store.RenameUser(ctx, models.Who{Username: "bob"}, "george"))(t)
	Must(store.FindUser(ctx, models.Who{Username: "george"}))(t)
	Must(store.FindPerson(ctx, models.Who{Username: "alice"}))(t)
	NoError(t, store.EachUser(ctx, func(models.User) error { return nil }))
	done(store.BlockUser(ctx, models.Who{Username: "george"}))
	done(store.UnblockUser(ctx, models.Who{Username: "george"}))
	removed := Must(store.RemoveUser(ctx, models.Who{Username: "ringo"}, models.UserRemoval{Block: true, Events: true, Progress: func(models.RemovedEvents) {}}))(t)
	Must(store.UnblockIdentity(ctx, *removed.Identity))(t)

	in := signIn()
	grant := Must(store.SignIn(ctx, models.Who{Username: "carol"}, true, in))(t)
	caller := models.Caller{UserID: grant.ID, SessionID: grant.SessionID}
	Must(store.FindSessions(ctx, []models.RefreshToken{in.RefreshToken}))(t)
	Must(store.Sessions(ctx, grant.ID))(t)
	Must(store.SignedOut(ctx, []models.Caller{caller, {UserID: grant.ID}}))(t)
	Must(store.RefreshSession(ctx, caller, in.RefreshToken, models.Hash{1}))(t)
	if _, err := store.RefreshSession(ctx, caller, in.RefreshToken, models.Hash{2}); err == nil {
		t.Error("a spent token is taken")
	}
	Must(store.RevokeSession(ctx, caller))(t)
	Must(store.RevokeUser(ctx, grant.ID, grant.SessionID))(t)
	done(store.RevokeTokens(ctx, []models.RefreshToken{in.RefreshToken}))
	Must(store.RevokeAll(ctx))(t)
	done(store.PruneSessions(ctx, models.ID{}))

	event := Must(models.ParseID(id))(t)
	creator := Must(models.ParseID(alice.Session.UserID))(t)
	for _, filter := range []models.EventFilter{{World: "crowded"}, {Creator: creator}, {Creator: creator, World: "w", Since: time.Unix(1, 0)}, {Before: At(2039)}} {
		NoError(t, store.EachEvent(ctx, filter, func(models.EventDetails) error { return nil }))
	}
	done(store.FindEvent(ctx, event))
	name := "N"
	Must(store.EditEvent(ctx, event, models.EventEdit{Name: &name}))(t)
	own := Must(store.FindOwnEvent(ctx, creator, event))(t)
	edited := own
	edited.Name = "M"
	NoError(t, store.EditOwnEvent(ctx, models.Caller{UserID: creator}, own, edited))
	if store.EditOwnEvent(ctx, models.Caller{UserID: creator}, own, edited) == nil {
		t.Error("an event is edited as it no longer is")
	}
	Must(store.RemoveEvent(ctx, event))(t)
	NoError(t, store.EachWorld(ctx, func(models.World) error { return nil }))
	for _, filter := range []models.EventFilter{{World: "w"}, {Creator: creator}, {Before: At(2039)}} {
		Must(store.RemoveEvents(ctx, models.EventRemoval{EventFilter: filter, Progress: func(models.RemovedEvents) {}}))(t)
	}
	NoError(t, store.SweepEvents(ctx))
}

// useEventsPage looks at all lists of /events, and edits, leaves and cancels there.
func useEventsPage(t *testing.T, c *Client, id string) {
	t.Helper()
	for _, query := range []string{"", "?world=w", "?past=true", "?list=made&past=true&after=4070908800000." + id, "?list=joined&world=w&after=0." + id} {
		c.Get("/events" + query).Has(200)
	}
	other := c.Create("w", "other", When)
	form := url.Values{"id": {other}, "shown": {""}, "name": {"Other"}, "description": {""}, "scheduledAt": {"2031-01-02T03:04"}}
	c.Post("/events/edit", form.Encode(), AsForm).Has(409)
	c.Post("/events/leave", "id="+other, AsForm).Is(204, "")
	c.Post("/events/cancel", "id="+other, AsForm).Is(204, "")
	c.Post("/events/cancel", "id="+other, AsForm).IsError(404, "event_not_found")
}
