package sessions

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// securityEvent is a line of the log.
type securityEvent struct{ Msg, Event, User, Session, Cause, Client, Level string }

// securityEvents are those that were logged.
func securityEvents(t *testing.T, s *servicetest.Service) (events []securityEvent) {
	t.Helper()
	for line := range strings.Lines(s.Log.String()) {
		var e securityEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Msg == "security event" {
			events = append(events, e)
		}
	}
	return events
}

// What happens to a session is logged and counted, once.
func TestSecurityEvents(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.Client()
		alice.Post("/sign-in", "username=alice", servicetest.AsForm).Is(303, "")
		spent := "refreshToken=" + alice.Cookie("refreshToken")
		alice.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
		s.Client().Get(servicetest.RefreshPath, servicetest.Cookies(spent)).Is(400, servicetest.InvalidRefresh) // a second tab
		s.Clock.Advance(2 * time.Minute)
		s.Client().Get(servicetest.RefreshPath, servicetest.Cookies(spent)).Is(400, servicetest.InvalidRefresh)
		s.Client().Get(servicetest.RefreshPath, servicetest.Cookies(spent)).Is(400, servicetest.InvalidRefresh)
		alice.Post("/sign-out", "").Is(204, "") // of a session that is revoked already
		bob := s.Client()
		bob.Post("/sign-in", "username=bob", servicetest.AsForm).Is(303, "")
		bob.Post("/sign-out", "").Is(204, "")

		got := securityEvents(t, s)
		want := []string{"signed_in", "reused", "signed_in", "signed_out"}
		if len(got) != len(want) {
			t.Fatalf("logged %+v", got)
		}
		for i, e := range got {
			if e.Event != want[i] || e.Level != "WARN" || len(e.User) != 36 || len(e.Session) != 36 || e.Client != "127.0.0.1" {
				t.Errorf("logged %+v, want %v", e, want[i])
			}
		}
		if got[0].Session != got[1].Session || got[0].User != got[1].User || got[1].Cause == "" || got[2].Session != got[3].Session {
			t.Errorf("the sessions are mixed up: %+v", got)
		}
		text := servicetest.Metrics(t, s)
		for event, n := range map[string]int{"signed_in": 2, "refused": 0, "signed_out": 1, "revoked": 0, "reused": 1} {
			if line := fmt.Sprintf(`worldevents_security_events_total{event=%q} %d`, event, n); !strings.Contains(text, line+"\n") {
				t.Errorf("metrics lack %s", line)
			}
		}
	})
}
