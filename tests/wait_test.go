package tests

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// waits are the requests that wait for news of a list.
func waits(t *testing.T, s *servicetest.Service) int {
	return int(metric(t, s, "worldevents_list_waits"))
}

// metric is the value of a metric, which is named with its labels.
func metric(t *testing.T, s *servicetest.Service, name string) float64 {
	t.Helper()
	match := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(metrics(t, s))
	if match == nil {
		t.Fatalf("no metric %s", name)
	}
	value, _ := strconv.ParseFloat(match[1], 64)
	return value
}

// outcomes is how often waits were over for a reason.
func outcomes(t *testing.T, s *servicetest.Service, why string) int {
	return int(metric(t, s, `worldevents_list_waits_total{outcome="`+why+`"}`))
}

// waiterOf signs alice in, who creates an event of the world plaza and has its list.
func waiterOf(s *servicetest.Service) (alice *servicetest.Client, id, tag string) {
	alice = s.SignIn("alice")
	id = alice.Create("plaza", "a", when)
	return alice, id, alice.Get(plaza).Header.Get("ETag")
}

// arrived is a response with the time that it took.
type arrived struct {
	*servicetest.Response
	took time.Duration
}

// await asks for a list that the client has, and returns once the request waits. The response comes later.
func await(t *testing.T, s *servicetest.Service, c *servicetest.Client, path, tag string, with ...servicetest.RequestOption) <-chan arrived {
	t.Helper()
	before := waits(t, s)
	res := make(chan arrived, 1)
	begin := time.Now()
	go func() {
		r := c.Get(path, append(with, ifNoneMatch(tag))...)
		res <- arrived{r, time.Since(begin)}
	}()
	servicetest.Eventually(t, 20*time.Second, "the request waits", func() bool {
		return waits(t, s) > before
	})
	return res
}

// still fails the test when the response has come.
func still(t *testing.T, res <-chan arrived) {
	t.Helper()
	select {
	case r := <-res:
		t.Fatalf("the request does not wait: %d %s after %v", r.Status, r.Body, r.took)
	case <-time.After(300 * time.Millisecond):
	}
}

// soon is how long a response takes at most that comes at once, on a machine that does much else.
const soon = 10 * time.Second

// come returns the response, which must come at once.
func come(t *testing.T, res <-chan arrived) arrived {
	t.Helper()
	select {
	case r := <-res:
		return r
	case <-time.After(soon):
		t.Fatal("no response")
		return arrived{}
	}
}

// allCome fails the test unless all responses come at once, with a list.
func allCome(t *testing.T, all []<-chan arrived) {
	t.Helper()
	for _, res := range all {
		if r := come(t, res); r.Status != 200 {
			t.Errorf("%d", r.Status)
		}
	}
}

func TestWaitParameter(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, _, tag := waiterOf(s)
		for _, query := range []string{
			"wait=0", "wait=51", "wait=-1", "wait=x", "wait=", "wait", "wait=1.5", "wait=1&wait=1", "wait=1&wait=2", "wait=1e1", "wait=0x1",
			"wait=%201", "wait=99999999999999999999", "wait=1s", "wait=%FF", "wait=1&limit=2&wait=1",
		} {
			alice.Get(plaza+"?"+query, ifNoneMatch(tag)).IsError(400, "validation_failed", "wait")
			alice.Get(plaza+"?"+query).IsError(400, "validation_failed", "wait")
		}
		alice.Get(plaza+"?wait=0&limit=0&cursor=x", ifNoneMatch(tag)).IsError(400, "validation_failed", "wait", "limit")
		alice.Get(plaza+"?wait=50&cursor=x", ifNoneMatch(tag)).IsError(400, "validation_failed", "cursor")
		s.Client().Get(plaza+"?wait=50", ifNoneMatch(tag)).IsError(401, "no_token")
		alice.Get(plaza+"?Wait=50", ifNoneMatch(tag)).Is(304, "") // another parameter, which is ignored
	})
}

// There is nothing to wait for unless the client has this very list.
func TestWaitNotAtAll(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		alice.Create("plaza", "a", when)
		plain := alice.Get(plaza)
		tag := plain.Header.Get("ETag")
		begin := time.Now()
		alice.Get(plaza+"?wait=50").Is(200, plain.Body).HasHeader("ETag", tag)
		for _, value := range []string{`"x"`, `W/"x"`, "x", `""`, strings.Trim(tag, `W/"`), strings.ToLower(tag), `"` + tag + `"`} {
			alice.Get(plaza+"?wait=50", ifNoneMatch(value)).Is(200, plain.Body).HasHeader("ETag", tag).HasHeader("Retry-After", "")
		}
		for _, value := range []string{"*", tag + ", *", "*," + tag} {
			alice.Get(plaza+"?wait=50", ifNoneMatch(value)).Is(304, "").HasHeader("ETag", tag).HasHeader("Retry-After", "")
		}
		for i := range 220 { // a list that is too large to hold
			addEvent(s, "large", i, "n", strings.Repeat("d", 5000))
		}
		large := alice.Get("/api/event/large").HasHeader("ETag", "")
		alice.Get("/api/event/large?wait=50", ifNoneMatch(tag)).Is(200, large.Body).HasHeader("ETag", "")
		if took := time.Since(begin); took > 40*time.Second {
			t.Errorf("%v", took)
		}
	})
}

// Whatever way the client says which list it has, it waits, and has the new one once there is one.
func TestWaitForChange(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, id, tag := waiterOf(s)
		bob := s.SignIn("bob")
		opaque := strings.TrimPrefix(tag, "W/")
		join := func() { bob.Post("/api/event/join/"+id, "").Is(200, servicetest.Success) }
		leave := func() { bob.Delete("/api/event/"+id).Is(200, servicetest.Success) }
		for i, header := range []string{tag, opaque, `"x", ` + tag, tag + `,"y"`, " " + tag + " "} {
			res := await(t, s, alice, plaza+"?wait=50", header)
			if i == 0 {
				still(t, res)
			}
			s.Clock.Advance(time.Second)
			join()
			plain := bob.Get(plaza)
			r := come(t, res)
			r.Is(200, plain.Body).HasHeader("ETag", plain.Header.Get("ETag")).HasHeader("Cache-Control", "private, no-cache").
				HasHeader("Vary", "Cookie, Origin, Accept-Encoding").HasHeader("Retry-After", "").HasHeader("Link", "").SetsNoCookie()
			res = await(t, s, alice, plaza+"?wait=50", plain.Header.Get("ETag"))
			leave()
			come(t, res).Is(200, list(listed(id, "a", "", when, "alice"))).HasHeader("ETag", tag)
		}
		if n := outcomes(t, s, "changed"); n != 10 {
			t.Errorf("%d changed", n)
		}
		servicetest.Eventually(t, soon, "nobody waits", func() bool { return waits(t, s) == 0 })
	})
}

// A list that was polled for long is waited for like any other: its events are known, and a write to one is noticed itself.
func TestWaitAfterPolling(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, id, tag := waiterOf(s)
		for range often {
			alice.Get(plaza, ifNoneMatch(tag)).Is(304, "")
		}
		res := await(t, s, alice, plaza+"?wait=50", tag)
		alice.Delete("/api/event/"+id).Is(200, servicetest.Success)
		come(t, res).Is(200, list(listed(id, "a", "", when)))
		if n := metric(t, s, `worldevents_list_wait_readings_total{cause="own_write"}`); n != 1 {
			t.Errorf("%v readings for an own write", n)
		}
		if n := metric(t, s, "worldevents_list_wait_lag_seconds_count"); n != 1 {
			t.Errorf("%v lags", n)
		}
	})
}

// Without a change the response is a 304 like any other, after the time that was asked for.
func TestWaitElapsed(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		alice.Create("plaza", "a", when)
		alice.Create("plaza", "b", when)
		for _, query := range []string{"?wait=1", "?limit=1&wait=1", "?wait=1&limit=1"} {
			plain := alice.Get(plaza + strings.NewReplacer("?wait=1&", "?", "&wait=1", "", "wait=1", "").Replace(query))
			begin := time.Now()
			r := alice.Get(plaza+query, ifNoneMatch(plain.Header.Get("ETag"))).Is(304, "")
			r.HasHeader("ETag", plain.Header.Get("ETag")).HasHeader("Link", plain.Header.Get("Link")).HasHeader("Cache-Control", "private, no-cache").
				HasHeader("Vary", "Cookie, Origin, Accept-Encoding").HasHeader("Retry-After", "").HasHeader("Content-Type", "")
			if took := time.Since(begin); took < time.Second || took > soon {
				t.Errorf("%s: after %v", query, took)
			}
		}
		if n := outcomes(t, s, "elapsed"); n != 3 {
			t.Errorf("%d elapsed", n)
		}
	})
}

// A wait ends with the JWT.
func TestWaitUntilExpiry(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, _, tag := waiterOf(s)
		s.Clock.Advance(15*time.Minute - 2*time.Second)
		begin := time.Now()
		alice.Get(plaza+"?wait=50", ifNoneMatch(tag)).Is(304, "").HasHeader("Retry-After", "")
		if took := time.Since(begin); took > soon {
			t.Errorf("after %v", took)
		}
		alice.Get(plaza+"?wait=50", ifNoneMatch(tag)).IsError(401, "token_expired")
	})
}

// Whose session was revoked meanwhile is told so, with the change or at the end.
func TestWaitRevoked(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, id, tag := waiterOf(s)
		bob, carol, dave := s.SignIn("bob"), s.SignIn("carol"), s.SignIn("dave")
		first := await(t, s, bob, plaza+"?wait=50", tag)
		second := await(t, s, carol, plaza+"?wait=50", tag)
		third := await(t, s, bob, plaza+"?wait=4", tag)
		bob.On(s).Post("/sign-out", "").Is(204, "")
		come(t, third).IsError(401, "invalid_token")
		still(t, first)
		nowhere := dave.Get("/api/event/nowhere")
		alone := await(t, s, dave, "/api/event/nowhere?wait=2", nowhere.Header.Get("ETag"))
		dave.On(s).Post("/sign-out", "").Is(204, "")
		come(t, alone).IsError(401, "invalid_token") // its list was read before, and is not again
		alice.Delete("/api/event/"+id).Is(200, servicetest.Success)
		come(t, first).IsError(401, "invalid_token").HasHeader("ETag", "").HasHeader("Cache-Control", "no-store")
		come(t, second).Is(200, list(listed(id, "a", "", when)))
		if n := outcomes(t, s, "revoked"); n != 3 {
			t.Errorf("%d revoked", n)
		}
		carol.Get(plaza+"?wait=50", ifNoneMatch(tag)).Is(200, list(listed(id, "a", "", when)))
		bob.Get(plaza+"?wait=50", ifNoneMatch(carol.Get(plaza).Header.Get("ETag"))).IsError(401, "invalid_token")
	})
}

// A stop ends all waiting at once, and lets nobody wait any more.
func TestWaitStop(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, _, tag := waiterOf(s)
		first := await(t, s, alice, plaza+"?wait=50", tag)
		second := await(t, s, alice, plaza+"?wait=50&limit=1", tag)
		s.Drain()
		for _, res := range []<-chan arrived{first, second} {
			come(t, res).Is(304, "").HasHeader("Retry-After", "1").HasHeader("ETag", tag)
		}
		begin := time.Now()
		alice.Get(plaza+"?wait=50", ifNoneMatch(tag)).Is(304, "").HasHeader("Retry-After", "1").HasHeader("ETag", tag)
		alice.Get(plaza, ifNoneMatch(tag)).Is(304, "").HasHeader("Retry-After", "")
		if took := time.Since(begin); took > soon {
			t.Errorf("%v", took)
		}
	})
}

// Too many who wait have the response at once: all together, or of one user.
func TestWaitFull(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, _, tag := waiterOf(s)
		var all []<-chan arrived
		for range 2 {
			all = append(all, await(t, s, alice, plaza+"?wait=50", tag))
		}
		alice.Get(plaza+"?wait=50", ifNoneMatch(tag)).Is(304, "").HasHeader("Retry-After", "1").HasHeader("ETag", tag)
		alice.Get(plaza+"?wait=50", ifNoneMatch(`"x"`)).Is(200, alice.Get(plaza).Body).HasHeader("Retry-After", "")
		for i := range 7 {
			user := s.SignIn(fmt.Sprint("user ", i))
			for range 2 {
				all = append(all, await(t, s, user, plaza+"?wait=50", tag))
			}
		}
		last := s.SignIn("last")
		last.Get(plaza+"?wait=50", ifNoneMatch(tag)).Is(304, "").HasHeader("Retry-After", "1")
		if n := outcomes(t, s, "full"); n != 3 {
			t.Errorf("%d full", n)
		}
		alice.Create("plaza", "b", when)
		allCome(t, all)
		servicetest.Eventually(t, soon, "nobody waits", func() bool { return waits(t, s) == 0 })
		tag = alice.Get(plaza).Header.Get("ETag")
		res := await(t, s, last, plaza+"?wait=50", tag)
		still(t, res)
		alice.Create("plaza", "c", when)
		come(t, res)
	}, func(o *servicetest.Options) { o.MaxWaiting = 16 })
}

// A client that hangs up gives its place back.
func TestWaitClientGone(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, _, tag := waiterOf(s)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		for range 3 {
			go func() {
				defer func() { done <- struct{}{} }()
				r, _ := http.NewRequestWithContext(ctx, "GET", s.URL+plaza+"?wait=50", nil)
				r.Header.Set("If-None-Match", tag)
				r.Header.Set("Cookie", "token="+alice.Cookie("token"))
				if res, err := s.HTTP().RoundTrip(r); err == nil {
					res.Body.Close()
					t.Errorf("status %d", res.StatusCode)
				}
			}()
		}
		servicetest.Eventually(t, soon, "all wait", func() bool { return waits(t, s) == 3 })
		cancel()
		for range 3 {
			<-done
		}
		servicetest.Eventually(t, soon, "nobody waits", func() bool { return waits(t, s) == 0 && outcomes(t, s, "gone") == 3 })
	})
}

// A request that waits is none that is in flight, neither before nor when it has its response.
func TestWaitIsNotInFlight(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, _, tag := waiterOf(s)
		var all []<-chan arrived
		for range 5 {
			all = append(all, await(t, s, alice, plaza+"?wait=50", tag))
		}
		alice.Get(session).Is(200, servicetest.Authenticated)
		alice.Create("plaza", "b", when)
		allCome(t, all)
		alice.Get(session).Is(200, servicetest.Authenticated)
	}, func(o *servicetest.Options) { o.MaxInFlight = 1 })
}

// waitRaw asks for a list over a connection of its own, whose buffers are small, and returns once the request waits.
func waitRaw(t *testing.T, s *servicetest.Service, c *servicetest.Client, path, tag string) *tls.Conn {
	t.Helper()
	before := waits(t, s)
	plain, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	plain.(*net.TCPConn).SetReadBuffer(4 << 10)
	conn := tls.Client(plain, &tls.Config{InsecureSkipVerify: true})
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nCookie: token=%s\r\nIf-None-Match: %s\r\n\r\n", path, c.Cookie("token"), tag)
	servicetest.Eventually(t, 20*time.Second, "the request waits", func() bool { return waits(t, s) > before })
	return conn
}

// A client that does not read its response takes the place of nobody who waits.
func TestWaitBesideClientThatDoesNotRead(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		for i := range 180 {
			addEvent(s, "plaza", i, "n", strings.Repeat("d", 5000))
		}
		tag := alice.Get(plaza).Header.Get("ETag")
		if tag == "" {
			t.Fatal("no ETag")
		}
		waitRaw(t, s, bob, plaza+"?wait=50", tag)
		id := alice.Create("plaza", "a", when)
		servicetest.Eventually(t, soon, "the response waits for its client", func() bool {
			now, _ := waitingResponses(t, s)
			return now == 1
		})
		// Of four in flight one response is written at once to those who have waited.
		res := await(t, s, alice, plaza+"?wait=50", alice.Get(plaza).Header.Get("ETag"))
		alice.Delete("/api/event/"+id).Is(200, servicetest.Success)
		if r := come(t, res); r.Status != 200 {
			t.Errorf("%d", r.Status)
		}
	}, func(o *servicetest.Options) { o.MaxInFlight = 4 })
}

// A client that closes its side of the connection after the request has a response at once: nobody can tell it from one
// that is gone. A stop closes the connection.
func TestWaitHalfClosed(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, _, tag := waiterOf(s)
		for _, test := range []struct {
			end  func(*tls.Conn)
			want string
		}{
			{func(c *tls.Conn) { c.CloseWrite() }, ""},
			{func(*tls.Conn) { s.Drain() }, "Connection: close\r\n"},
		} {
			conn := waitRaw(t, s, alice, plaza+"?wait=50", tag)
			test.end(conn)
			conn.SetReadDeadline(time.Now().Add(soon))
			text, err := io.ReadAll(conn)
			if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 304 ") || !strings.Contains(string(text), "Retry-After: 1\r\n") || !strings.Contains(string(text), test.want) {
				t.Errorf("%v: %s", err, text)
			}
		}
	})
}

// Requests that come together wait together, whatever the limit of those in flight, and no other is refused.
func TestWaitAllAtOnce(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, id, tag := waiterOf(s)
		const n = 200
		var statuses sync.Map
		var wait sync.WaitGroup
		for i := range n {
			wait.Go(func() {
				res := alice.Get(fmt.Sprintf("%s?limit=%d&wait=50", plaza, 1+i%10), ifNoneMatch(tag))
				count, _ := statuses.LoadOrStore(res.Status, new(atomic.Int64))
				count.(*atomic.Int64).Add(1)
			})
		}
		servicetest.Eventually(t, 40*time.Second, "all wait", func() bool { return waits(t, s) == n })
		alice.Delete("/api/event/"+id).Is(200, servicetest.Success)
		wait.Wait()
		if count, ok := statuses.Load(200); !ok || count.(*atomic.Int64).Load() != n {
			statuses.Range(func(status, count any) bool {
				t.Errorf("%d: %d times", status, count.(*atomic.Int64).Load())
				return true
			})
		}
	}, patient, func(o *servicetest.Options) { o.MaxInFlight = 250 })
}
