// Package worlds asks the system that owns the worlds who may come in. Equal questions that come together are one, and answers are kept.
// Without an answer nobody comes in, unless the owner lets its last yes outlive a failure (stale-if-error, RFC 5861 section 4).
//
//	GET {url}?world=…&user=…&subject=…&action=list|create|join  -->  2xx: yes   401, 403, 404: no   anything else: unknown
package worlds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"worldevents/models"
	"worldevents/server/internal/inflight"
	"worldevents/server/internal/ledger"
)

const (
	askTimeout  = 2 * time.Second  // for an answer
	turnTimeout = 5 * time.Second  // for a turn to ask
	maxAsking   = 64               // questions at the owner, an eighth of one user
	maxQueue    = 1 << 14          // questions that wait for their turn, an eighth of one user
	maxAnswer   = 64 << 10         // bytes
	maxKept     = 100_000          // answers
	maxTTL      = time.Minute      // of an answer; a yes without max-age counts as long
	noTTL       = 5 * time.Second  // of a no without max-age
	maxStale    = 10 * time.Minute // for which a yes outlives a failure
)

var (
	// ErrForbidden is the owner's no.
	ErrForbidden = errors.New("the owner of the world keeps the user out")
	// ErrUnknown is the models.ErrBusy of an owner that did not answer.
	ErrUnknown = fmt.Errorf("%w: the owner of the worlds did not answer", models.ErrBusy)
)

// Owner is the system that owns the worlds. Its methods may be called concurrently.
type Owner struct {
	url    url.URL
	token  atomic.Pointer[string]
	find   func(context.Context, models.Caller) (models.User, error)
	now    func() time.Time
	client *http.Client
	places *ledger.Ledger[models.ID] // by user
	asking singleflight.Group
	kept   *lru.Cache[question, answer]

	// Questions is a metric.
	Questions *prometheus.HistogramVec
}

type question struct {
	user          models.ID
	world, action string
}

// answer is yes, or an error. It counts until then; during a failure of the owner it counts until stale.
type answer struct {
	err          error
	until, stale time.Time
}

// New returns the owner at a URL, without a request to it. find returns a caller's user, or models.ErrSignedOut; now is the clock.
func New(at url.URL, token string, find func(context.Context, models.Caller) (models.User, error), now func() time.Time) *Owner {
	o := &Owner{
		url: at, find: find, now: now,
		places: ledger.NewQueue[models.ID](ledger.Eighth(maxAsking), ledger.Eighth(maxQueue)),
		Questions: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "worldevents_world_questions_seconds",
			Help:    "Time of a question to the owner of the worlds, with the wait for its turn, by the answer: yes, no, unknown, stale (the last yes instead).",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2, 4},
		}, []string{"answer"}),
	}
	for _, answer := range []string{"yes", "no", "unknown", "stale"} {
		o.Questions.WithLabelValues(answer)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = maxAsking
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // it could lead the token elsewhere
	o.client = &http.Client{Transport: transport, Timeout: askTimeout, CheckRedirect: noRedirect}
	o.SetToken(token)
	o.kept, _ = lru.New[question, answer](maxKept) // fails only for a size below 1
	return o
}

// SetToken sets the token for later questions (RFC 6750 section 2.1); "" means none.
func (o *Owner) SetToken(token string) { o.token.Store(&token) }

// Held are gauges of questions and kept answers.
func (o *Owner) Held() map[string]func() int {
	return map[string]func() int{"world_questions": o.places.Held, "world_answers": o.kept.Len}
}

// Allow returns nil if the caller may list, create or join in a world, which action says. Otherwise it returns ErrForbidden, ErrUnknown,
// models.ErrSignedOut, or an error of the store.
func (o *Owner) Allow(ctx context.Context, caller models.Caller, world, action string) error {
	q := question{caller.UserID, world, action}
	if a, ok := o.kept.Get(q); ok && o.now().Before(a.until) {
		return a.err
	}
	return o.ask(ctx, caller, q)
}

// Renew asks about a watcher anew in the second half of the time that the kept answer counts for, unless ctx is done before. Otherwise all
// watchers of a list would ask together, when it changes.
func (o *Owner) Renew(ctx context.Context, caller models.Caller, world, action string) {
	q := question{caller.UserID, world, action}
	a, _ := o.kept.Peek(q)
	if left := a.until.Sub(o.now()); left > 0 {
		timer := time.AfterFunc(left-rand.N(left/2+1), func() {
			if now, _ := o.kept.Peek(q); now.until.Equal(a.until) {
				o.ask(context.Background(), caller, q)
			}
		})
		context.AfterFunc(ctx, func() { timer.Stop() })
	}
}

// ask asks about a caller, whatever is kept.
func (o *Owner) ask(ctx context.Context, caller models.Caller, q question) error {
	user, err := o.find(ctx, caller)
	if err != nil {
		return err
	}
	defer inflight.FromContext(ctx).Queue()()
	q.world = strings.Clone(q.world) // without the request
	asked := o.asking.DoChan(fmt.Sprintf("%s %s %s", q.user, q.action, q.world), func() (any, error) { return nil, o.keep(q, user) })
	select {
	case answer := <-asked:
		return answer.Err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
	}
}

// keep keeps the owner's answer and returns its error. It goes on without the callers.
func (o *Owner) keep(q question, user models.User) error {
	begin, label := time.Now(), "yes"
	a, err := o.request(q, user)
	switch old, _ := o.kept.Get(q); {
	case err != nil && o.now().Before(old.stale):
		until := o.now().Add(min(noTTL, old.stale.Sub(o.now())))
		a, label = answer{until: until, stale: old.stale}, "stale" // the owner is not asked again at once
	case err != nil:
		a, label = answer{err: fmt.Errorf("%w: %w", ErrUnknown, err)}, "unknown"
	case a.err != nil:
		label = "no"
	}
	o.kept.Add(q, a)
	o.Questions.WithLabelValues(label).Observe(time.Since(begin).Seconds())
	return a.err
}

// request asks at its turn. Its errors do not have the question, with the user's name.
func (o *Owner) request(q question, user models.User) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), turnTimeout)
	defer cancel()
	if err := o.places.Acquire(ctx, q.user); err != nil {
		return answer{}, err
	}
	defer o.places.Release(q.user, 1)
	name, value := "username", user.Username
	if user.Subject != nil {
		name, value = "subject", *user.Subject
	}
	asked := url.Values{"world": {q.world}, "user": {q.user.String()}, name: {value}, "action": {q.action}}
	target := o.url
	target.RawQuery = strings.TrimPrefix(target.RawQuery+"&"+asked.Encode(), "&")
	r := &http.Request{Method: http.MethodGet, URL: &target, Header: make(http.Header)}
	if token := *o.token.Load(); token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := o.client.Do(r)
	if of, ok := errors.AsType[*url.Error](err); ok {
		return answer{}, of.Err
	}
	defer res.Body.Close()
	if n, err := io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer+1)); err != nil || n > maxAnswer {
		return answer{}, fmt.Errorf("an answer that is broken, or larger than %d bytes", maxAnswer)
	}
	return readAnswer(res, o.now())
}

// Check asks for a user and a world that do not exist, and reports whether the user is let in. It returns an error without an answer.
func Check(at url.URL, token string) (allowed bool, err error) {
	a, err := New(at, token, nil, time.Now).request(question{models.ID{1}, "worldevents check", "list"}, models.User{Username: "worldevents check"})
	return a.err == nil, err
}

// readAnswer returns an error for a response that is neither yes nor no.
func readAnswer(res *http.Response, now time.Time) (a answer, err error) {
	ttl := maxTTL
	switch status := res.StatusCode; {
	case status >= 200 && status <= 299:
	case status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusNotFound:
		a.err, ttl = ErrForbidden, noTTL
	default:
		return a, fmt.Errorf("HTTP status %d", status)
	}
	limit, stale := maxTTL, time.Duration(0)
	for directive := range strings.SplitSeq(strings.Join(res.Header.Values("Cache-Control"), ","), ",") { // RFC 9111 section 5.2
		name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(directive)), "=")
		number, _ := strconv.ParseUint(strings.Trim(value, `"`), 10, 31) // the largest, if there are more (RFC 9111 section 1.2.2)
		switch seconds := time.Duration(number) * time.Second; name {
		case "max-age":
			ttl = seconds
		case "stale-if-error":
			stale = min(seconds, maxStale)
		case "no-store", "no-cache":
			limit = 0
		}
	}
	ttl = min(ttl, limit)
	a.until = now.Add(ttl - rand.N(ttl/5+1)) // or answers that came together would end together
	if a.err == nil {
		a.stale = a.until.Add(stale)
	}
	return a, nil
}
