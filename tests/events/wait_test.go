package events

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// outcomes is how often waits were over for a reason.
func outcomes(t *testing.T, s *servicetest.Service, why string) int {
	return int(servicetest.Metric(t, s, `worldevents_list_watches_total{outcome="`+why+`"}`))
}

// still fails the test when the response has come.
func still(t *testing.T, res <-chan servicetest.Arrived) {
	t.Helper()
	select {
	case r := <-res:
		t.Fatalf("the request does not wait: %d %s after %v", r.Status, r.Body, r.Took)
	case <-time.After(300 * time.Millisecond):
	}
}

// allCome fails the test unless all responses come at once, with a list.
func allCome(t *testing.T, all []<-chan servicetest.Arrived) {
	t.Helper()
	for _, res := range all {
		servicetest.Come(t, res).Has(200)
	}
}

// There is nothing to wait for unless the client has this very list.
func TestWaitNotAtAll(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		alice.Create("plaza", "a", servicetest.When)
		plain := alice.Get(servicetest.Plaza)
		tag := plain.Header.Get("ETag")
		begin := time.Now()
		alice.Get(servicetest.Plaza+"?wait=50").Is(200, plain.Body).HasHeader("ETag", tag)
		for _, value := range []string{`"x"`, `W/"x"`, "x", `""`, strings.Trim(tag, `W/"`), strings.ToLower(tag), `"` + tag + `"`} {
			alice.Get(servicetest.Plaza+"?wait=50", servicetest.IfNoneMatch(value)).Is(200, plain.Body).HasHeader("ETag", tag).HasHeader("Retry-After", "")
		}
		for _, value := range []string{"*", tag + ", *", "*," + tag} {
			alice.Get(servicetest.Plaza+"?wait=50", servicetest.IfNoneMatch(value)).Is(304, "").HasHeader("ETag", tag).HasHeader("Retry-After", "")
		}
		if took := time.Since(begin); took > 40*time.Second {
			t.Errorf("%v", took)
		}
	})
}

// Whatever way the client says which list it has, it waits, and has the new one once there is one.
func TestWaitForChange(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, id, tag := servicetest.WatcherOf(s)
		bob := s.SignIn("bob")
		opaque := strings.TrimPrefix(tag, "W/")
		join := func() { bob.Post("/api/event/join/"+id, "").Is(200, servicetest.Success) }
		leave := func() { bob.Delete("/api/event/"+id).Is(200, servicetest.Success) }
		for i, header := range []string{tag, opaque, `"x", ` + tag, tag + `,"y"`, " " + tag + " "} {
			res := servicetest.Await(t, s, alice, servicetest.Plaza+"?wait=50", header)
			if i == 0 {
				still(t, res)
			}
			s.Clock.Advance(time.Second)
			join()
			plain := bob.Get(servicetest.Plaza)
			r := servicetest.Come(t, res)
			r.Is(200, plain.Body).HasHeader("ETag", plain.Header.Get("ETag")).HasHeader("Cache-Control", "private, no-cache").
				HasHeader("Vary", "Cookie, Origin, Accept-Encoding").HasHeader("Retry-After", "").HasHeader("Link", "").SetsNoCookie()
			res = servicetest.Await(t, s, alice, servicetest.Plaza+"?wait=50", plain.Header.Get("ETag"))
			leave()
			servicetest.Come(t, res).Is(200, servicetest.List(servicetest.Listed(id, "a", "", servicetest.When, "alice"))).HasHeader("ETag", tag)
		}
		servicetest.Is(t, outcomes(t, s, "changed"), 10, "changed")
		servicetest.Eventually(t, "nobody waits", func() bool { return servicetest.Waits(t, s) == 0 })
	})
}

// The time from a write to the news of it is measured, but where a question that was asked anyway has found the write before its own
// instance could say that it has written.
func TestWaitLag(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, id, tag := servicetest.WatcherOf(s)
		bob := s.SignIn("bob")
		servicetest.Eventually(t, "a lag is measured", func() bool {
			res := servicetest.Await(t, s, alice, servicetest.Plaza+"?wait=50", tag)
			bob.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
			servicetest.Come(t, res).Is(200, servicetest.List(servicetest.Listed(id, "a", "", servicetest.When, "alice", "bob")))
			bob.Delete("/api/event/"+id).Is(200, servicetest.Success)
			return servicetest.Metric(t, s, "worldevents_list_watch_lag_seconds_count") > 0
		})
	})
}

// Without a change the response is a 304 like any other, after the time that was asked for.
func TestWaitElapsed(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		alice.Create("plaza", "a", servicetest.When)
		alice.Create("plaza", "b", servicetest.When)
		for _, query := range []string{"?wait=1", "?limit=1&wait=1", "?wait=1&limit=1"} {
			plain := alice.Get(servicetest.Plaza + strings.NewReplacer("?wait=1&", "?", "&wait=1", "", "wait=1", "").Replace(query))
			begin := time.Now()
			r := alice.Get(servicetest.Plaza+query, servicetest.IfNoneMatch(plain.Header.Get("ETag"))).Is(304, "")
			r.HasHeader("ETag", plain.Header.Get("ETag")).HasHeader("Link", plain.Header.Get("Link")).HasHeader("Cache-Control", "private, no-cache").
				HasHeader("Vary", "Cookie, Origin, Accept-Encoding").HasHeader("Retry-After", "").HasHeader("Content-Type", "")
			if took := time.Since(begin); took < time.Second || took > servicetest.Soon {
				t.Errorf("%s: after %v", query, took)
			}
		}
		servicetest.Is(t, outcomes(t, s, "elapsed"), 3, "elapsed")
	})
}

// A wait ends with the JWT.
func TestWaitUntilExpiry(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, _, tag := servicetest.WatcherOf(s)
		s.Clock.Advance(15*time.Minute - 5*time.Second) // a busy machine gets to the wait in that time
		begin := time.Now()
		alice.Get(servicetest.Plaza+"?wait=50", servicetest.IfNoneMatch(tag)).Is(304, "").HasHeader("Retry-After", "")
		if took := time.Since(begin); took > servicetest.Soon {
			t.Errorf("after %v", took)
		}
		alice.Get(servicetest.Plaza+"?wait=50", servicetest.IfNoneMatch(tag)).IsError(401, "token_expired")
	})
}

// Whose session was revoked meanwhile is told so, with the change or at the end, or earlier when something else has woken them.
func TestWaitRevoked(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, id, tag := servicetest.WatcherOf(s)
		bob, carol, dave := s.SignIn("bob"), s.SignIn("carol"), s.SignIn("dave")
		first := servicetest.Await(t, s, bob, servicetest.Plaza+"?wait=50", tag)
		second := servicetest.Await(t, s, carol, servicetest.Plaza+"?wait=50", tag)
		third := servicetest.Await(t, s, bob, servicetest.Plaza+"?wait=4", tag)
		bob.On(s).Post("/sign-out", "").Is(204, "")
		servicetest.Come(t, third).IsError(401, "invalid_token")
		nowhere := dave.Get("/api/event/nowhere")
		alone := servicetest.Await(t, s, dave, "/api/event/nowhere?wait=2", nowhere.Header.Get("ETag"))
		dave.On(s).Post("/sign-out", "").Is(204, "")
		servicetest.Come(t, alone).IsError(401, "invalid_token") // its list was read before, and is not again
		alice.Delete("/api/event/"+id).Is(200, servicetest.Success)
		servicetest.Come(t, first).IsError(401, "invalid_token").HasHeader("ETag", "").HasHeader("Cache-Control", "no-store")
		servicetest.Come(t, second).Is(200, servicetest.List(servicetest.Listed(id, "a", "", servicetest.When)))
		servicetest.Is(t, outcomes(t, s, "revoked"), 3, "revoked")
		carol.Get(servicetest.Plaza+"?wait=50", servicetest.IfNoneMatch(tag)).Is(200, servicetest.List(servicetest.Listed(id, "a", "", servicetest.When)))
		bob.Get(servicetest.Plaza+"?wait=50", servicetest.IfNoneMatch(carol.Get(servicetest.Plaza).Header.Get("ETag"))).IsError(401, "invalid_token")
	})
}

// A stop ends all waiting at once, and lets nobody wait any more.
func TestWaitStop(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, _, tag := servicetest.WatcherOf(s)
		first := servicetest.Await(t, s, alice, servicetest.Plaza+"?wait=50", tag)
		second := servicetest.Await(t, s, alice, servicetest.Plaza+"?wait=50&limit=1", tag)
		s.Drain()
		for _, res := range []<-chan servicetest.Arrived{first, second} {
			servicetest.Come(t, res).Is(304, "").HasHeader("Retry-After", "1").HasHeader("ETag", tag)
		}
		begin := time.Now()
		alice.Get(servicetest.Plaza+"?wait=50", servicetest.IfNoneMatch(tag)).Is(304, "").HasHeader("Retry-After", "1").HasHeader("ETag", tag)
		alice.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).Is(304, "").HasHeader("Retry-After", "")
		if took := time.Since(begin); took > servicetest.Soon {
			t.Errorf("%v", took)
		}
	})
}

// Too many who wait have the response at once: all together, or of one user.
func TestWaitFull(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, _, tag := servicetest.WatcherOf(s)
		var all []<-chan servicetest.Arrived
		for range 2 {
			all = append(all, servicetest.Await(t, s, alice, servicetest.Plaza+"?wait=50", tag))
		}
		alice.Get(servicetest.Plaza+"?wait=50", servicetest.IfNoneMatch(tag)).Is(304, "").HasHeader("Retry-After", "1").HasHeader("ETag", tag)
		alice.Get(servicetest.Plaza+"?wait=50", servicetest.IfNoneMatch(`"x"`)).Is(200, alice.Get(servicetest.Plaza).Body).HasHeader("Retry-After", "")
		for i := range 3 + 8 { // once half of the places are taken, each user has one
			user := s.SignIn(fmt.Sprint("user ", i))
			for range min(2, 1+3/(i+1)) {
				all = append(all, servicetest.Await(t, s, user, servicetest.Plaza+"?wait=50", tag))
			}
		}
		last := s.SignIn("last")
		last.Get(servicetest.Plaza+"?wait=50", servicetest.IfNoneMatch(tag)).Is(304, "").HasHeader("Retry-After", "1")
		servicetest.Is(t, outcomes(t, s, "full"), 3, "full")
		alice.Create("plaza", "b", servicetest.When)
		allCome(t, all)
		servicetest.Eventually(t, "nobody waits", func() bool { return servicetest.Waits(t, s) == 0 })
		tag = alice.Get(servicetest.Plaza).Header.Get("ETag")
		res := servicetest.Await(t, s, last, servicetest.Plaza+"?wait=50", tag)
		still(t, res)
		alice.Create("plaza", "c", servicetest.When)
		servicetest.Come(t, res)
	}, func(o *servicetest.Options) { o.MaxWatches = 16 })
}

// A client that hangs up gives its place back.
func TestWaitClientGone(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, _, tag := servicetest.WatcherOf(s)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		for range 3 {
			go func() {
				defer func() { done <- struct{}{} }()
				r, _ := http.NewRequestWithContext(ctx, "GET", s.URL+servicetest.Plaza+"?wait=50", nil)
				r.Header.Set("If-None-Match", tag)
				r.Header.Set("Cookie", "token="+alice.Cookie("token"))
				if res, err := s.HTTP().RoundTrip(r); err == nil {
					res.Body.Close()
					t.Errorf("status %d", res.StatusCode)
				}
			}()
		}
		servicetest.Eventually(t, "all wait", func() bool { return servicetest.Waits(t, s) == 3 })
		cancel()
		for range 3 {
			<-done
		}
		servicetest.Eventually(t, "nobody waits", func() bool { return servicetest.Waits(t, s) == 0 && outcomes(t, s, "gone") == 3 })
	})
}

// A request that waits is none that is in flight, neither before nor when it has its response.
func TestWaitIsNotInFlight(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, _, tag := servicetest.WatcherOf(s)
		var all []<-chan servicetest.Arrived
		for range 5 {
			all = append(all, servicetest.Await(t, s, alice, servicetest.Plaza+"?wait=50", tag))
		}
		alice.Get(servicetest.SessionPath).Is(200, servicetest.Authenticated)
		alice.Create("plaza", "b", servicetest.When)
		allCome(t, all)
		alice.Get(servicetest.SessionPath).Is(200, servicetest.Authenticated)
	}, func(o *servicetest.Options) { o.MaxInFlight = 1 })
}

// waitRaw asks for a list over a connection of its own, whose buffers are small, and returns once the request waits.
func waitRaw(t *testing.T, s *servicetest.Service, c *servicetest.Client, path, tag string) *tls.Conn {
	t.Helper()
	before := servicetest.Waits(t, s)
	plain := servicetest.Must(net.Dial("tcp", strings.TrimPrefix(s.URL, "https://")))(t)
	plain.(*net.TCPConn).SetReadBuffer(4 << 10)
	conn := tls.Client(plain, &tls.Config{InsecureSkipVerify: true})
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nCookie: token=%s\r\nIf-None-Match: %s\r\n\r\n", path, c.Cookie("token"), tag)
	servicetest.Eventually(t, "the request waits", func() bool { return servicetest.Waits(t, s) > before })
	return conn
}

// A client that does not read its response takes the place of nobody who waits.
func TestWaitBesideClientThatDoesNotRead(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		for i := range 180 {
			servicetest.AddEvent(s, "plaza", i, "n", strings.Repeat("d", 5000))
		}
		tag := alice.Get(servicetest.Plaza).Header.Get("ETag")
		waitRaw(t, s, bob, servicetest.Plaza+"?wait=50", tag)
		id := alice.Create("plaza", "a", servicetest.When)
		servicetest.Eventually(t, "the response waits for its client", func() bool {
			return servicetest.Held(t, s, "list_bytes") > 0
		})
		// Of four in flight one response is written at once to those who have waited.
		res := servicetest.Await(t, s, alice, servicetest.Plaza+"?wait=50", alice.Get(servicetest.Plaza).Header.Get("ETag"))
		alice.Delete("/api/event/"+id).Is(200, servicetest.Success)
		servicetest.Come(t, res).Has(200)
	}, func(o *servicetest.Options) { o.MaxInFlight = 4 })
}

// A client that closes its side of the connection after the request has a response at once: nobody can tell it from one
// that is gone. A stop closes the connection.
func TestWaitHalfClosed(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, _, tag := servicetest.WatcherOf(s)
		for _, test := range []struct {
			end  func(*tls.Conn)
			want string
		}{
			{func(c *tls.Conn) { c.CloseWrite() }, ""},
			{func(*tls.Conn) { s.Drain() }, "Connection: close\r\n"},
		} {
			conn := waitRaw(t, s, alice, servicetest.Plaza+"?wait=50", tag)
			test.end(conn)
			conn.SetReadDeadline(time.Now().Add(servicetest.Soon))
			servicetest.Contains(t, string(servicetest.Must(io.ReadAll(conn))(t)), "HTTP/1.1 304 ", "Retry-After: 1\r\n", test.want)
		}
	})
}

// What arrives on the connection of a request that waits changes nothing about it, and is the next request.
func TestWaitBesideNextRequest(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, _, tag := servicetest.WatcherOf(s)
		head := "GET %s HTTP/1.1\r\nHost: x\r\nCookie: token=%s\r\nIf-None-Match: %s\r\n"
		wait := fmt.Sprintf(head, servicetest.Plaza+"?wait=50", alice.Session.Token, tag)
		for n, body := range []string{"\r\n", "Content-Length: 2\r\n\r\n{}", "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"} {
			conn := servicetest.Must(tls.Dial("tcp", strings.TrimPrefix(s.URL, "https://"), &tls.Config{InsecureSkipVerify: true}))(t)
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(20 * time.Second))
			io.WriteString(conn, wait+body)
			servicetest.Eventually(t, "the request waits", func() bool { return servicetest.Waits(t, s) == 1 })
			io.WriteString(conn, fmt.Sprintf(head, servicetest.SessionPath, alice.Session.Token, tag)+"Connection: close\r\n\r\n")
			alice.Create("plaza", fmt.Sprint(n), servicetest.When)
			got := string(servicetest.Must(io.ReadAll(conn))(t))
			if !strings.HasPrefix(got, "HTTP/1.1 200 ") || !strings.HasSuffix(got, servicetest.Authenticated) {
				t.Errorf("%q", got)
			}
			tag = alice.Get(servicetest.Plaza).Header.Get("ETag")
			wait = fmt.Sprintf(head, servicetest.Plaza+"?wait=50", alice.Session.Token, tag)
		}
	})
}

// With more than 16 tags If-None-Match counts as absent, in one line or in many.
func TestManyTags(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, _, tag := servicetest.WatcherOf(s)
		for _, join := range []func(tags []string) []string{
			func(tags []string) []string { return tags },
			func(tags []string) []string { return []string{strings.Join(tags, ", ")} },
		} {
			for _, query := range []string{"", "?wait=1"} {
				for n, want := range map[int]int{16: 304, 17: 200} {
					tags := slices.Repeat([]string{`"x"`}, n)
					tags[n-1] = tag
					alice.Get(servicetest.Plaza+query, ifNoneMatch(join(tags)...)).Has(want)
				}
			}
		}
	})
}
