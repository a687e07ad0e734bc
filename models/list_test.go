package models_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// A list is the same in whatever form PostgreSQL sends its rows.
func TestListInAnyForm(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	s := servicetest.Start(t, db)
	servicetest.Crowd(t, s, "plaza", 300, 0, 2)
	alice := s.SignIn("alice")
	want := alice.Get(servicetest.Plaza).Body
	for _, setting := range []string{"timezone=Asia/Kathmandu", "default_query_exec_mode=exec"} {
		alice.On(servicetest.Start(t, db.With(setting))).Get(servicetest.Plaza).Is(200, want)
	}
}

// A reading of which no more is wanted ends, and the next one finds a connection.
func TestListEndsEarly(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		servicetest.AddEvents(s, "w", 8000, 600, 2030, strings.Repeat("d", 5000))
		for range 20 {
			some := few(3)
			list := servicetest.Must(s.Store.ReadList(t.Context(), models.ListOptions{WorldID: "w"}, models.Caller{}, &some))(t)
			if some != 0 || list.Moment.IsZero() {
				t.Fatalf("%d more events, %+v", some, list)
			}
		}
	}, func(o *servicetest.Options) { o.DBMaxConns = 1 })
}

// few is a sink that wants so many events.
type few int

func (*few) Begin() {}

func (f *few) Event(*models.ListedEvent) (more bool) {
	*f--
	return *f > 0
}

// A reading that takes too long is told from a server that does not respond: others go on with their connections.
func TestListTimeout(t *testing.T) {
	t.Parallel()
	proxy, url := servicetest.Postgres(t).ThroughProxy()
	store := openStore(t, url)
	read := func(d time.Duration) error {
		ctx := context.WithValue(t.Context(), models.Deadline{}, time.Now().Add(d))
		_, err := store.ReadList(ctx, models.ListOptions{WorldID: "w"}, models.Caller{}, new(textSink))
		return err
	}
	servicetest.NoError(t, read(time.Minute))
	proxy.Silence()
	if err := read(100 * time.Millisecond); !errors.Is(err, models.ErrBusy) || errors.Is(err, models.ErrTimeout) {
		t.Error(err)
	}
}
