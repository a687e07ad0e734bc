package operating

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// requestLines are the lines that requests have left.
func requestLines(t *testing.T, s *servicetest.Service) []map[string]any {
	t.Helper()
	return s.Log.Lines(t, "request")
}

// awaitLine returns the first line that is what, which may come after the response.
func awaitLine(t *testing.T, s *servicetest.Service, what string, is func(line map[string]any) bool) (line map[string]any) {
	t.Helper()
	servicetest.Eventually(t, "the line of "+what, func() bool {
		lines := requestLines(t, s)
		i := slices.IndexFunc(lines, is)
		if i >= 0 {
			line = lines[i]
		}
		return i >= 0
	})
	return line
}

// requestLine is the one line that a request has left.
func requestLine(t *testing.T, s *servicetest.Service, res *servicetest.Response) (line map[string]any) {
	t.Helper()
	id := res.Header.Get("X-Request-Id")
	return awaitLine(t, s, id, func(line map[string]any) bool { return line["request_id"] == id })
}

// The line of a request says what was asked for by whom, and how it ended.
func TestRequestLog(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		id, user := alice.Create("plaza", "n", servicetest.When), alice.Session.UserID
		form := s.Client()
		for _, test := range []struct {
			res  *servicetest.Response
			want map[string]any // nil for a field that must not be there
		}{
			{alice.Post("/api/event/caf%C3%A9%22%20x?wait=1", servicetest.EventBody), map[string]any{"operation": "createEvent", "method": "POST", "status": 200.0, "code": nil, "path": "/api/event/caf%C3%A9%22%20x", "user": user, "world": `café" x`}},
			{alice.Get(servicetest.Plaza + "?limit=1&secret=x"), map[string]any{"operation": "listEvents", "method": "GET", "status": 200.0, "path": servicetest.Plaza, "user": user, "world": "plaza", "event_id": nil, "db_ms": true}},
			{alice.Post("/api/event/join/"+id, ""), map[string]any{"operation": "joinEvent", "status": 200.0, "path": "/api/event/join/" + id, "event_id": id, "world": nil, "user": user, "db_ms": true}},
			{alice.Delete("/api/event/" + id), map[string]any{"operation": "leaveEvent", "status": 200.0, "event_id": id, "user": user, "db_ms": true}},
			{alice.Delete("/api/event/not-an-id"), map[string]any{"status": 404.0, "code": "event_not_found", "event_id": nil, "path": "/api/event/not-an-id"}},
			{alice.Get(servicetest.SessionPath), map[string]any{"operation": "getSession", "status": 200.0, "user": user, "db_ms": nil}},
			{alice.Get(servicetest.RefreshPath), map[string]any{"operation": "refreshSession", "status": 200.0, "user": user, "db_ms": true}},
			{s.Client().Get(servicetest.RefreshPath), map[string]any{"status": 400.0, "code": "no_refresh_token", "user": nil}},
			{s.Client().Get(servicetest.Plaza), map[string]any{"status": 401.0, "code": "no_token", "user": nil, "world": nil, "path": servicetest.Plaza}},
			{form.Post("/sign-in", "username=alice", servicetest.AsForm), map[string]any{"operation": "signIn", "method": "POST", "status": 303.0, "user": user, "db_ms": true}},
			{alice.Get("/api/event/a%0Ab?limit=1&x=%22level%22", servicetest.Header("User-Agent", "evil\" agent")), map[string]any{"operation": "listEvents", "status": 400.0, "code": "validation_failed", "world": nil, "path": "/api/event/a%0Ab"}},
			{alice.Do("PATCH", "/api/event/a%E2%80%A8%1b%5B31m", ""), map[string]any{"operation": "methodNotAllowed", "method": "PATCH", "status": 405.0, "path": "/api/event/a%E2%80%A8%1B%5B31m"}},
			{alice.Do(strings.Repeat("M", 32), servicetest.Plaza, ""), map[string]any{"operation": "methodNotAllowed", "method": strings.Repeat("M", 32), "status": 405.0}},
			{alice.Do(strings.Repeat("M", 9000), servicetest.Plaza, ""), map[string]any{"operation": "methodNotAllowed", "method": strings.Repeat("M", 32) + "...", "status": 405.0}},
			{alice.Get("/" + strings.Repeat("x", 2000)), map[string]any{"operation": "notFound", "code": "not_found", "path": "/" + strings.Repeat("x", 511) + "..."}},
		} {
			line := requestLine(t, s, test.res)
			for field, want := range test.want {
				if want == true {
					servicetest.True(t, isPartOf(line, field), "%s: %v", field, line)
				} else {
					servicetest.Is(t, line[field], want, "%s: %v", field, line)
				}
			}
			for _, field := range []string{"turn_wait_ms", "news_wait_ms", "client_wait_ms", "trace_id"} {
				servicetest.Is(t, line[field], nil, "%s: %v", field, line)
			}
			servicetest.Is(t, line["client"], "127.0.0.1", "client: %v", line)
			servicetest.Is(t, line["bytes"], any(float64(len(test.res.Body))), "bytes: %v", line)
		}
		for _, part := range []string{"secret=", "limit=", "\x1b", ":null"} {
			servicetest.Lacks(t, s.Log.String(), part)
		}
	})
}

// The log of requests can be thinned out. What failed is always there, and so are security events.
func TestRequestLogThinnedOut(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ every, want int64 }{{1, 20}, {7, 3}, {20, 1}, {0, 0}} {
		t.Run(fmt.Sprint(test.every), func(t *testing.T) {
			t.Parallel()
			s := servicetest.New(t, func(o *servicetest.Options) { o.LogEvery = test.every })
			alice := s.SignIn("alice")
			for range 20 {
				alice.Get(servicetest.SessionPath).Is(200, servicetest.Authenticated)
				alice.Get(servicetest.Plaza+"?limit=x").IsError(400, "validation_failed", "limit")
			}
			s.Client().Post("/sign-in", "username=alice", servicetest.AsForm).Is(303, "")
			requestLine(t, s, s.Client().Get(servicetest.SessionPath)) // 400, and the last
			lines := make(map[any]int64)
			for _, line := range requestLines(t, s) {
				lines[line["status"]]++
			}
			servicetest.Is(t, lines[200.0], test.want, "lines of 20 requests")
			servicetest.Is(t, lines[400.0], 21, "lines of 21 errors")
			servicetest.Contains(t, s.Log.String(), `"event":"signed_in"`)
		})
	}
}

// Nobody can write lines, or fields, of their own into the log, in either format.
func TestLogInjection(t *testing.T) {
	t.Parallel()
	const evil = "a\" level=ERROR msg=forged\\u2028{\"msg\":\"forged\"}\u2028\u202e\u0085"
	for _, format := range []string{"json", "text"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			log := new(servicetest.Log)
			s := servicetest.New(t, func(o *servicetest.Options) {
				o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
				o.Log = slog.New(slog.NewJSONHandler(log, nil))
				if format == "text" {
					o.Log = slog.New(slog.NewTextHandler(log, nil))
				}
			})
			alice := s.SignIn("alice")
			sent := 0
			for _, path := range []string{servicetest.Plaza, "/api/event/" + url.PathEscape(evil), "/%22%0A%7F" + url.PathEscape(evil), "/api/event/%ff%fe"} {
				alice.Get(path, servicetest.Header("X-Request-Id", "x\" msg=forged"), servicetest.Header("Traceparent", evil), servicetest.Header("X-Forwarded-For", "x msg=forged"))
				sent++
			}
			forged := regexp.MustCompile(`(^| )msg=forged|"msg":"forged"`)
			servicetest.Eventually(t, "all lines", func() bool { return strings.Count(log.String(), "\n") >= sent })
			lines := slices.Collect(strings.Lines(log.String()))
			for _, line := range lines {
				isControl := func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x85 || r == '\u2028' && format == "json" }
				servicetest.True(t, !strings.ContainsFunc(strings.TrimSuffix(line, "\n"), isControl), "no control character is in %q", line)
				if format == "json" {
					var fields struct{ Msg string }
					servicetest.NoError(t, json.Unmarshal([]byte(line), &fields))
					servicetest.True(t, fields.Msg != "forged", "the line is ours: %s", line)
				} else if unquoted := regexp.MustCompile(`"(\\.|[^"\\])*"`).ReplaceAllString(line, "Q"); forged.MatchString(unquoted) {
					t.Errorf("%q", line)
				}
			}
			servicetest.Is(t, len(lines), sent, "lines: %q", lines)
		})
	}
}

// A line has the trace of a valid traceparent, and nothing of any other.
func TestTraceID(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t)
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	valid := "00-" + trace + "-" + parent + "-01"
	for _, test := range []struct {
		lines []string
		want  any
	}{
		{[]string{valid}, trace},
		{[]string{"00-" + trace + "-" + parent + "-00"}, trace},
		{[]string{"cc-" + trace + "-" + parent + "-01"}, trace},
		{[]string{"cc-" + trace + "-" + parent + "-01-what-the-future-will-be-like"}, trace},
		{[]string{"cc-" + trace + "-" + parent + "-01-"}, trace},
		{nil, nil},
		{[]string{""}, nil},
		{[]string{valid, valid}, nil},
		{[]string{valid + "," + valid}, nil},
		{[]string{valid + "-x"}, nil},
		{[]string{valid + "x"}, nil},
		{[]string{valid[:54]}, nil},
		{[]string{"cc-" + trace + "-" + parent + "-01.x"}, nil},
		{[]string{"ff-" + trace + "-" + parent + "-01"}, nil},
		{[]string{"0-" + trace + "-" + parent + "-001"}, nil},
		{[]string{"00-" + strings.Repeat("0", 32) + "-" + parent + "-01"}, nil},
		{[]string{"00-" + trace + "-" + strings.Repeat("0", 16) + "-01"}, nil},
		{[]string{strings.ToUpper(valid)}, nil},
		{[]string{strings.Replace(valid, "a", "g", 1)}, nil},
		{[]string{strings.Replace(valid, "-01", "-0g", 1)}, nil},
		{[]string{strings.Replace(valid, "-", "_", 1)}, nil},
		{[]string{strings.Replace(valid, parent, parent[:15]+"-", 1)}, nil},
		{[]string{"00-" + trace[:30] + "é-" + parent + "-01"}, nil},
	} {
		res := s.Client().Get(servicetest.Plaza, func(r *http.Request) { r.Header["Traceparent"] = test.lines })
		servicetest.Is(t, requestLine(t, s, res)["trace_id"], test.want, "%q", test.lines)
	}
}

// isPartOf reports whether a line has a time that is a part of its duration.
func isPartOf(line map[string]any, field string) bool {
	part, _ := line[field].(float64)
	whole, _ := line["duration_ms"].(float64)
	return 0 < part && part <= whole
}

// A request that waited for the database says for how long. A client that hangs up meanwhile is no error of the service.
func TestRequestLogOfWaitingForTheDatabase(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, id, _ := servicetest.WatcherOf(s)
		defer servicetest.Lock(t, s.Database, "rsvps")()
		refused := func(line map[string]any) bool {
			return line["status"] == 503.0 && line["code"] == "overloaded" && isPartOf(line, "db_wait_ms") && line["db_wait_ms"].(float64) > 900
		}
		servicetest.Within(t, time.Minute, "one of two waits in vain", func() bool {
			servicetest.AtOnce(2, func(int) { alice.Post("/api/event/join/"+id, "") })
			return slices.ContainsFunc(requestLines(t, s), refused)
		})
		gone := func(line map[string]any) bool {
			return line["status"] == 499.0 && line["code"] == "client_gone" && isPartOf(line, "db_wait_ms")
		}
		servicetest.Within(t, time.Minute, "one of two hangs up while it waits", func() bool {
			servicetest.AtOnce(2, func(int) {
				ctx, hangUp := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer hangUp()
				r, _ := http.NewRequestWithContext(ctx, "POST", s.URL+"/api/event/join/"+id, nil)
				r.Header.Set("Cookie", "token="+alice.Cookie("token"))
				if res, err := s.HTTP().RoundTrip(r); err == nil {
					res.Body.Close()
				}
			})
			return slices.ContainsFunc(requestLines(t, s), gone)
		})
		servicetest.Lacks(t, servicetest.Metrics(t, s), `code="client_gone",operation="joinEvent",status="500"`)
		servicetest.True(t, counted(t, s, responses("joinEvent", 499, "client_gone")) >= 1, "one who hung up is counted")
	}, func(o *servicetest.Options) { o.DBMaxConns, o.DBTimeout = 1, 8*time.Second })
}

// Waiting for news, and for a client who does not read, are none of the database.
func TestRequestLogOfOtherWaiting(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, _, tag := servicetest.WatcherOf(s)
		news := servicetest.Await(t, s, alice, servicetest.Plaza+"?wait=40", tag)
		alice.Create("plaza", "b", servicetest.When)
		line := requestLine(t, s, (<-news).Response)
		servicetest.True(t, isPartOf(line, "news_wait_ms"), "the wait is a part: %v", line)
		servicetest.Is(t, line["status"], 200.0, "%v", line)

		servicetest.AddEvents(s, "plaza", 7000, 1500, 2040, strings.Repeat("d", 5000))
		_, hangUp := servicetest.OpenList(t, s, alice)
		time.Sleep(100 * time.Millisecond) // for which its write waits at least
		hangUp()
		line = awaitLine(t, s, "a client that is gone", func(line map[string]any) bool { return line["code"] == "client_gone" })
		servicetest.Is(t, line["status"], 200.0, "%v", line)
		servicetest.True(t, isPartOf(line, "client_wait_ms") && isPartOf(line, "db_ms"), "both are parts: %v", line)
	})
}

// A request for one list more than a user may have read at once says how long it waited for its turn.
func TestRequestLogOfWaitingForATurn(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	s := servicetest.Start(t, db, func(o *servicetest.Options) { o.DBMaxConns = 20 })
	alice := s.SignIn("alice")
	release := servicetest.Lock(t, db, "events")
	const requests = 20
	var written atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		servicetest.AtOnce(requests, func(i int) {
			trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { written.Add(1) }}
			alice.Get(fmt.Sprintf("%s?limit=%d", servicetest.Plaza, i+1), func(r *http.Request) { *r = *r.WithContext(httptrace.WithClientTrace(r.Context(), trace)) })
		})
	}()
	servicetest.Eventually(t, "all lists but those that wait are read", func() bool {
		return written.Load() == requests && servicetest.Held(t, s, "requests") == 16
	})
	release()
	<-done
	awaitLine(t, s, "one that waited", func(line map[string]any) bool { return isPartOf(line, "turn_wait_ms") && line["status"] == 200.0 })
}

// The page about logs names every field of a request's line, and no other.
func TestLogFieldsAreListed(t *testing.T) {
	t.Parallel()
	const logs = "docs/operate/logs.md"
	_, table, _ := strings.Cut(servicetest.Shipped(t, logs), "| Field | |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var listed, got []string
	for _, match := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(table, -1) {
		listed = append(listed, match[1])
	}
	source := servicetest.Shipped(t, "server/internal/observe/line.go") + servicetest.Shipped(t, "server/internal/observe/series.go")
	for _, match := range regexp.MustCompile(`slog\.\w+\("(\w+)"|\{"(\w+)", |With\("(\w+)"`).FindAllStringSubmatch(source, -1) {
		got = append(got, match[1]+match[2]+match[3])
	}
	isListed(t, logs, listed, got)
}
