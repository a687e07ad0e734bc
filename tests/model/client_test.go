package model

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"worldevents/models"
	"worldevents/server"
	"worldevents/tests/servicetest"
)

// site is two instances of the service over one database. Its requests are sent without servicetest.Client, which fails the
// whole test where rapid must see a run fail that it can shrink, and reads large lists too slowly.
type site struct {
	*servicetest.Database
	instances [2]*servicetest.Service
	urls      [2]string // of whom is asked
	http      *http.Client
	made      atomic.Int64 // numbers what must be unique in the database
	breaker   *breaker     // nil where nothing ends and comes back
}

func newSite(t *testing.T, db *servicetest.Database) *site {
	s := &site{Database: db}
	s.instances[0] = servicetest.Start(t, db, behindBalancer)
	s.instances[1] = s.instances[0].NewInstance(behindBalancer)
	s.urls = [2]string{s.instances[0].URL, s.instances[1].URL}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableCompression: true, MaxIdleConnsPerHost: 64,
	}
	s.http = &http.Client{Transport: transport, Timeout: 2 * time.Minute}
	t.Cleanup(transport.CloseIdleConnections)
	return s
}

// serial is a number that nothing else in the database has.
func (s *site) serial() int64 { return s.made.Add(1) }

// signIn makes a user with a session.
func (s *site) signIn(known *state, name string) (*user, error) {
	var session server.Session
	err := s.insist(func() (err error) {
		session, err = s.instances[0].Server.SignIn(context.Background(), models.Who{Username: name}, true)
		return err
	})
	if err != nil {
		return nil, err
	}
	known.Lock()
	defer known.Unlock()
	return known.addUser(session.UserID, name, session.Token), nil
}

// response is what came back between call and ret.
type response struct {
	status    int
	header    http.Header
	body      string
	call, ret int64
}

// is reports whether it is this error.
func (r response) is(status int, code string) bool {
	return r.status == status && strings.Contains(r.body, `"code":"`+code+`"`)
}

func (r response) String() string { return fmt.Sprintf("%d %.300s", r.status, r.body) }

// busyPatience is how long a request that gets 503 is repeated: two instances share SQLite's one write lock. Where things break
// it is how long what fails is repeated.
const busyPatience = time.Minute

// header is what one may be of a request; its value is empty for none.
type header struct{ name, value string }

// do sends a request, again while the service is busy, and where things break again until somebody answers who is not
// broken. The span of the response is that of all its tries, since any of them may have written.
func (s *site) do(u *user, instance int, method, path, body string, with header) (response, error) {
	return s.doUntil(context.Background(), u, instance, method, path, body, with)
}

// doUntil is do, cut short by ctx.
func (s *site) doUntil(ctx context.Context, u *user, instance int, method, path, body string, with header) (response, error) {
	r := response{call: now()}
	for deadline := time.Now().Add(busyPatience); ; {
		var content io.Reader
		if body != "" {
			content = strings.NewReader(body)
		}
		request, err := http.NewRequestWithContext(ctx, method, s.urls[instance]+path, content)
		if err != nil {
			return r, err
		}
		request.Header.Set("Cookie", "token="+u.token)
		if body != "" {
			request.Header.Set("Content-Type", "application/json")
		}
		if with.value != "" {
			request.Header.Set(with.name, with.value)
		}
		if method == "GET" {
			servicetest.AlternateGzip(request)
			r.call = now()
		}
		res, err := s.http.Do(request)
		if err == nil {
			r.status, r.header = res.StatusCode, res.Header
			r.body, err = readAll(res)
		}
		r.ret = now()
		switch again := err == nil && r.is(503, "overloaded") || s.breaker != nil && (err != nil || r.status >= 500); {
		case !again, ctx.Err() != nil, time.Now().After(deadline):
			return r, err
		case s.breaker != nil:
			time.Sleep(breakPace)
		}
	}
}

func readAll(res *http.Response) (string, error) {
	defer res.Body.Close()
	var b strings.Builder
	if res.ContentLength > 0 {
		b.Grow(int(res.ContentLength))
	}
	if _, err := io.Copy(&b, res.Body); err != nil || res.Header.Get("Content-Encoding") == "" {
		return b.String(), err
	}
	text, err := servicetest.Decompress(res.Header, []byte(b.String()))
	return string(text), err
}

func worldPath(w *world) string { return "/api/event/" + url.PathEscape(w.name) }

// list asks for a list, held being If-None-Match.
func (s *site) list(u *user, instance int, w *world, q query, held string) (response, error) {
	return s.do(u, instance, "GET", worldPath(w)+q.String(), "", header{"If-None-Match", held})
}

// wait asks for the list of a world once it is no longer the one that is held.
func (s *site) wait(ctx context.Context, u *user, instance int, w *world, held string) (response, error) {
	return s.doUntil(ctx, u, instance, "GET", worldPath(w)+"?wait=50", "", header{"If-None-Match", held})
}

// create makes an event, with an Idempotency-Key unless key is empty.
func (s *site) create(u *user, instance int, w *world, name, description string, at int64, key string) (response, error) {
	document, _ := json.Marshal(map[string]string{"name": name, "description": description, "scheduledAt": instant(at)})
	return s.do(u, instance, "POST", worldPath(w), string(document), header{"Idempotency-Key", key})
}

func (s *site) join(u *user, instance int, id string) (response, error) {
	return s.do(u, instance, "POST", "/api/event/join/"+id, "", header{})
}

func (s *site) leave(u *user, instance int, id string) (response, error) {
	return s.do(u, instance, "DELETE", "/api/event/"+id, "", header{})
}
