package faults

import (
	"testing"
	"time"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// A standby says nothing of what it sees, and one that has taken the place of its primary nothing about what that said.
func TestMomentsOfStandby(t *testing.T) {
	t.Parallel()
	primary := servicetest.NewPostgresServer(t, "fsync=off")
	open := func(server *servicetest.PostgresServer) *models.Store {
		store := servicetest.Must(models.Open(models.Options{URL: server.URL(), MaxConns: 2, Timeout: time.Minute, MaxWait: 20 * time.Second}))(t)
		t.Cleanup(func() { store.Close() })
		return store
	}
	before := open(primary)
	servicetest.NoError(t, before.Migrate(t.Context()))
	ask := func(store *models.Store, m models.Moment) models.Changes {
		t.Helper()
		answer, err := store.ChangedSince(t.Context(), m, "w", []models.Caller{{UserID: models.ID{1}}})
		if err != nil || len(answer.SignedOut) != 1 {
			t.Fatalf("%+v %v", answer, err)
		}
		worlds, err := store.WorldsSince(t.Context(), m)
		if err != nil || worlds.All != answer.Changed || len(worlds.Names) > 0 {
			t.Fatalf("%+v %v", worlds, err)
		}
		return answer
	}
	first := ask(before, models.Moment{}).Now
	if ask(before, first).Changed {
		t.Error("nothing was written, and the world has changed")
	}
	standby := primary.Standby("s")
	after := open(standby)
	if answer := ask(after, first); !answer.Changed || !answer.Now.IsZero() {
		t.Errorf("a standby says %+v", answer)
	}
	list, err := after.ReadList(t.Context(), models.ListOptions{WorldID: "w"}, models.Caller{}, nothing{})
	if err != nil || !list.Moment.IsZero() {
		t.Errorf("a standby has the list %+v %v", list, err)
	}
	primary.Kill()
	standby.Promote()
	servicetest.Eventually(t, "the standby takes writes", func() bool {
		_, err := after.PruneChanges(t.Context())
		return err == nil
	})
	answer := ask(after, first)
	if !answer.Changed || answer.Now.IsZero() {
		t.Errorf("once it is promoted it says %+v", answer)
	}
	if ask(after, answer.Now).Changed {
		t.Error("nothing was written, and the world has changed")
	}
}

// nothing takes no event of a list.
type nothing struct{}

func (nothing) Begin()                         {}
func (nothing) Event(*models.ListedEvent) bool { return false }
