package events

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

func TestListEventsPages(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		const n = 9
		for i := range n {
			// Several events at one instant: the id goes on where the time is the same.
			alice.Create("plaza", fmt.Sprint(i), time.Date(2030, 1, 1, 0, 0, 0, i/3*1e6, time.UTC).Format(time.RFC3339Nano))
		}
		alice.Create("other", "x", servicetest.When)
		whole := servicetest.EventIDs(t, alice.Get(servicetest.Plaza).HasHeader("Link", "").Body)
		servicetest.Is(t, len(whole), n, "events")
		for limit := 1; limit <= n+1; limit++ {
			servicetest.Is(t, servicetest.Walk(t, s, alice, fmt.Sprintf("%s?limit=%d", servicetest.Plaza, limit), servicetest.EventIDs), whole, "limit %d", limit)
		}

		// The Link is absolute and repeats from, to and limit, and nothing else.
		const from, to = "2029-12-31T23:00:00-01:00", "2031-01-01T00:00:00.0001Z"
		res := alice.Get(servicetest.Plaza + "?x=y&limit=2&to=" + to + "&from=" + from)
		next := servicetest.NextPage(t, s, res)
		query := next.Query()
		cursor := query.Get("cursor")
		if want := (url.Values{"from": {from}, "to": {to}, "limit": {"2"}, "cursor": {cursor}}); !servicetest.Equal(query, want) || next.Path != servicetest.Plaza {
			t.Errorf("Link %s", res.Header.Get("Link"))
		}
		// Without limit everything after the cursor follows.
		servicetest.Is(t, servicetest.EventIDs(t, alice.Get(servicetest.Plaza+"?cursor="+cursor).HasHeader("Link", "").Body), whole[2:], "after the cursor")
		// A page with exactly the rest has no next one.
		alice.Get(servicetest.Plaza+"?limit=7&cursor="+cursor).HasHeader("Link", "")

		// The cursor stands for a place, not for an event or an offset.
		alice.Create("plaza", "early", "2000-01-01T00:00:00Z")
		s.Database.Exec("DELETE FROM events WHERE id = ?", whole[1])
		servicetest.Is(t, servicetest.EventIDs(t, alice.Get(servicetest.Plaza+"?limit=2&cursor="+cursor).Body), whole[2:4], "after one came and one went")

		bad := []string{
			"x", "!!!", "%00", "%ff", cursor + "A", cursor + "=", cursor[1:], cursor[:len(cursor)-1], strings.ToUpper(cursor), cursor + cursor,
			"%20" + cursor, cursor + "%0A", servicetest.NonCanonical(cursor), // whose last character has other unused bits
		}
		for i := range cursor { // a changed character anywhere
			changed := []byte(cursor)
			changed[i] = map[bool]byte{true: 'B', false: 'A'}[changed[i] == 'A']
			bad = append(bad, string(changed))
		}
		for _, text := range bad {
			alice.Get(servicetest.Plaza+"?limit=2&cursor="+text).IsError(400, "validation_failed", "cursor")
		}
		alice.Get("/api/event/other?cursor="+cursor).IsError(400, "validation_failed", "cursor")
		alice.Get("/api/event/Plaza?limit=1&cursor="+cursor).IsError(400, "validation_failed", "cursor")
	})
}

// The digest in a cursor is no secret: what it names must be checked all the same.
func TestListEventsCursorOutOfRange(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		alice.Create("plaza", "a", servicetest.When)
		for _, milli := range []int64{-1, -62135596800001, 253402300800000, 1 << 62, -1 << 63, 1<<63 - 1} {
			alice.Get(servicetest.Plaza+"?cursor="+cursorOf("plaza", milli)).IsError(400, "validation_failed", "cursor")
		}
		for _, milli := range []int64{0, 253402300799999} {
			alice.Get(servicetest.Plaza+"?cursor="+cursorOf("plaza", milli)).HasHeader("Link", "")
		}
		servicetest.Is(t, servicetest.EventNames(t, alice.Get(servicetest.Plaza+"?cursor="+cursorOf("plaza", 0)).Body), []string{"a"}, "after the beginning")
	})
}

// cursorOf is a cursor of the world that names a time in milliseconds and no event.
func cursorOf(world string, milli int64) string {
	position := binary.BigEndian.AppendUint64(nil, uint64(milli))
	position = append(position, make([]byte, 16)...)
	digest := sha256.Sum256(append([]byte(world+"\x00"), position...))
	return base64.RawURLEncoding.EncodeToString(append(position, digest[:8]...))
}

// The Link leads through a proxy: it is built from BASE_URL, with the world escaped once.
func TestListEventsLinkAddress(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, func(o *servicetest.Options) { o.BaseURL, _ = url.Parse("https://example.org:8443/a%20b/c/") })
	alice := s.SignIn("alice")
	for path, spelled := range map[string]string{"plaza": "plaza", "a%2Fb": "a%2Fb", "100%25": "100%25", "%C3%A9%20x": "%C3%A9%20x", "a%3Fb%23c": "a%3Fb%23c", "%22%3E%3Cb": "%22%3E%3Cb"} {
		s.Run(t, path, func(t *testing.T) {
			cookie := servicetest.Cookies("token=" + alice.Session.Token)
			s.Client().Post("/api/event/"+path, servicetest.EventBody, cookie).Is(200, servicetest.Success)
			s.Client().Post("/api/event/"+path, servicetest.EventBody, cookie).Is(200, servicetest.Success)
			link := s.Client().Get("/api/event/"+path+"?limit=1", cookie).Header.Get("Link")
			servicetest.Contains(t, link, "<https://example.org:8443/a%20b/c/api/event/"+spelled+"?limit=1&cursor=")
		})
	}
}

// Every walk over pages gives every event once, and every page but the last is full, however large the events are.
func TestListEventsPagesOfLargeEvents(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		const events = 1000
		servicetest.AddEvents(s, "plaza", 8000, events, 2030, strings.Repeat("d", 5000))
		servicetest.AddEvents(s, "small", 8100, events, 2030, strings.Repeat("d", 700))
		alice := s.SignIn("alice")
		for _, world := range []string{"plaza", "small"} {
			want := servicetest.EventIDs(t, alice.Get("/api/event/"+world).Body)
			servicetest.Is(t, len(want), events, "events of %s", world)
			for _, limit := range []int{129, 300, 999} {
				pages := 0
				got := servicetest.Walk(t, s, alice, fmt.Sprintf("/api/event/%s?limit=%d", world, limit), func(t *testing.T, page string) []string {
					pages++
					return servicetest.EventIDs(t, page)
				})
				servicetest.Is(t, got, want, "%s in pages of %d", world, limit)
				servicetest.Is(t, pages, 1+events/limit, "%s: pages of %d", world, limit)
			}
		}
	})
}
