package faults

import (
	"fmt"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// No list ever shows an event without its creator's RSVP: not while events are being made, nor when the connection to
// the database breaks after any number of bytes of what a create sends or receives.
func TestCreateIsWhole(t *testing.T) {
	t.Parallel()
	whole := func(t *testing.T, db *servicetest.Database) {
		t.Helper()
		servicetest.Is(t, db.Count("events e WHERE NOT EXISTS (SELECT 1 FROM rsvps r JOIN users u ON u.number = r.user_number WHERE r.event_number = e.number AND u.id = e.creator_id)"), 0, "events without their creator")
	}
	eachProcess(t, func(t *testing.T, db *servicetest.Database, one, two *servicetest.Process) {
		const creators, events = 4, 400
		transport := newTransport(2 * creators)
		defer transport.CloseIdleConnections()
		watcher := signIn(t, transport, two.URL, "watcher")
		looks := 0
		stop := working(1, func(int) {
			looks++
			for _, e := range watcher.list(t, "w").Events {
				servicetest.Is(t, len(e.RSVPs), 1, "RSVPs seen")
			}
		})
		users := make([]*user, creators)
		for i := range users {
			users[i] = signIn(t, transport, one.URL, fmt.Sprintf("user%d", i))
		}
		end := working(creators, func(i int) { users[i].creates(t, "w") })
		servicetest.Within(t, time.Minute, "many events are made", func() bool { return db.Count("events") >= events })
		end()
		stop()
		whole(t, db)
		t.Logf("%d looks at a growing list of %d events", looks, events)
	})

	t.Run("broken connections", func(t *testing.T) {
		db := servicetest.Postgres(t)
		proxy, address := db.ThroughProxy()
		p := servicetest.NewProgram(t, "DATABASE_URL="+address, "DB_MAX_CONNS=1").ServeReady()
		alice := signIn(t, plain, p.URL, "alice")
		broken, made, refused := 0, 0, 0
		for bytes := 0; bytes <= 1200; bytes += 12 {
			for name, direction := range map[string]servicetest.Direction{"to the server": servicetest.ToServer, "to the client": servicetest.ToClient} {
				proxy.Limit(direction, bytes)
				_, res := alice.create("w", fmt.Sprint(bytes))
				proxy.Unlimit(direction)
				switch {
				case res.Status == 200:
					made++
				case res.Status == 500 && res.IsJSON():
					broken++
				case res.Status == 503 && res.IsJSON(): // no connection was made, so nothing was sent
					refused++
				default:
					t.Errorf("after %d bytes %s: %v", bytes, name, res)
				}
			}
		}
		whole(t, db)
		n := db.Count("events")
		if broken == 0 || made == 0 || refused == 0 || n < made || n > made+broken {
			t.Errorf("%d creates broke, %d were refused, %d succeeded, %d events are there", broken, refused, made, n)
		}
		t.Logf("%d creates broke, %d succeeded, %d events are there, all whole", broken, made, n)
	})
}
