package sessionmodel

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

func TestSessions(t *testing.T) {
	servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
		site := newSite(t, db)
		rapid.Check(t, func(t *rapid.T) { site.history(t) })
		site.checkEvents(t)
	})
}

// policies are those that histories are about. A session of the last one ends however often it is refreshed.
var policies = []models.SessionPolicy{
	{TTL: 24 * time.Hour, ReuseLeeway: time.Minute, PerUser: 1},
	{TTL: 24 * time.Hour, ReuseLeeway: time.Minute, PerUser: 3},
	{TTL: time.Hour, ReuseLeeway: time.Minute, PerUser: 2, MaxAge: 20 * time.Minute},
}

// skew is how far the clock of the second instance is ahead, where the database has a clock of its own.
const skew = 50 * time.Second

// site is two instances for each policy, over one database. Its time only goes on.
type site struct {
	instances [][2]*servicetest.Service
	db        *servicetest.Database
	event     string // an event to join
	now       time.Time
	serial    int
	// events are how often each security event must be in the log.
	events map[string]int
	log    log
}

func newSite(t *testing.T, db *servicetest.Database) *site {
	s := &site{db: db, now: time.Now().UTC().Truncate(time.Second), events: map[string]int{}, log: log{seen: map[string]int{}}}
	if db.Dialect == "postgres" {
		addClock(db)
	}
	for _, policy := range policies {
		var pair [2]*servicetest.Service
		for i := range pair {
			pair[i] = servicetest.Start(t, db, func(o *servicetest.Options) {
				o.Sessions, o.DatabaseClock = policy, db.Dialect == "postgres"
				o.Log = slog.New(slog.NewJSONHandler(&s.log, nil))
			})
		}
		s.instances = append(s.instances, pair)
	}
	s.event = s.instances[0][0].SignIn("host").Create("plaza", "n", "2030-01-02T03:04:05.000Z")
	return s
}

// addClock gives a database a clock that tests set: its functions are found before those of the system. It must come
// before the first connection of a service.
func addClock(db *servicetest.Database) {
	var name string
	db.Read("SELECT current_database()", nil, &name)
	for _, statement := range []string{
		"CREATE SCHEMA clock",
		"CREATE TABLE clock.clock (time timestamptz)",
		"INSERT INTO clock.clock VALUES (now())",
		"CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT time FROM clock.clock'",
		"CREATE FUNCTION clock.now() RETURNS timestamptz LANGUAGE sql AS 'SELECT time FROM clock.clock'",
		"ALTER DATABASE " + name + " SET search_path = clock, public, pg_catalog",
	} {
		db.Exec(statement)
	}
}

// log counts the security events that all instances log, and keeps nothing.
type log struct {
	mu   sync.Mutex
	seen map[string]int
}

var event = regexp.MustCompile(`"event":"(\w+)"`)

// Write implements io.Writer. It is called for each line.
func (l *log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if found := event.FindSubmatch(line); found != nil {
		l.seen[string(found[1])]++
	}
	return len(line), nil
}

// checkEvents holds the security events in the log against those that the model has seen.
func (s *site) checkEvents(t *testing.T) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if !maps.Equal(s.log.seen, s.events) {
		t.Errorf("security events in the log: %v, want %v", s.log.seen, s.events)
	}
}

// history is one run: two new users, and all that happens to their sessions.
type history struct {
	*site
	model
	pair  [2]*servicetest.Service
	ahead time.Duration
	users [2]string
}

func (s *site) history(t *rapid.T) {
	s.serial++
	policy := rapid.IntRange(0, len(policies)-1).Draw(t, "policy")
	h := &history{site: s, model: model{policy: policies[policy]}, pair: s.instances[policy]}
	for i := range h.users {
		h.users[i] = fmt.Sprintf("user %d of %d", i, s.serial)
	}
	if s.db.Dialect == "postgres" {
		h.ahead = rapid.SampledFrom([]time.Duration{0, skew}).Draw(t, "ahead")
	}
	h.advance(t, 0)
	t.Logf("PerUser %d, MaxAge %v, second clock ahead %v", h.policy.PerUser, h.policy.MaxAge, h.ahead)
	t.Repeat(map[string]func(*rapid.T){
		"sign in": h.signInAnywhere, "refresh": h.refreshAny, "refresh again": h.refreshAny, "refresh often": h.refreshOften,
		"session": h.sessionAny, "sign out": h.signOutAny, "join": h.joinAny, "wait": h.wait, "prune": h.pruneAll,
		"": h.check,
	})
}

// advance moves the clocks of the database and of both instances.
func (h *history) advance(t *rapid.T, d time.Duration) {
	h.now = h.now.Add(d)
	h.pair[0].Clock.Freeze(h.now)
	h.pair[1].Clock.Freeze(h.now.Add(h.ahead))
	if h.db.Dialect == "postgres" {
		h.db.Exec("UPDATE clock.clock SET time = ?", h.now)
	}
}

// instance draws which instance a request goes to, and when that is.
func (h *history) instance(t *rapid.T) (i int, at moment) {
	i = rapid.IntRange(0, 1).Draw(t, "instance")
	at = moment{h.now, h.now}
	if i == 1 {
		at.instance = h.now.Add(h.ahead)
	}
	return i, at
}

// anySession draws a session, later ones more often.
func (h *history) anySession(t *rapid.T) *session {
	if len(h.sessions) == 0 {
		t.Skip("nobody has signed in")
	}
	return h.sessions[len(h.sessions)-1-rapid.IntRange(0, len(h.sessions)-1).Draw(t, "session")]
}

// anyToken draws a refresh token that was ever issued: its owner's, a thief's copy, or what another tab still has.
func (h *history) anyToken(t *rapid.T) *refreshToken {
	s := h.anySession(t)
	return s.tokens[len(s.tokens)-1-rapid.IntRange(0, len(s.tokens)-1).Draw(t, "spent")]
}

func (h *history) anyJWT(t *rapid.T) *jwt {
	s := h.anySession(t)
	return s.jwts[len(s.jwts)-1-rapid.IntRange(0, len(s.jwts)-1).Draw(t, "older")]
}

func (h *history) signInAnywhere(t *rapid.T) {
	user := rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "user")
	i, at := h.instance(t)
	s := h.model.signIn(user, at)
	t.Logf("user %d signs in at instance %d: %s", user, i, s.name)
	res := h.pair[i].Client().Post("/sign-in", "username="+h.users[user], servicetest.AsForm)
	h.events["signed_in"]++
	h.is(t, res, response{303, "", 2})
	h.issued(t, s, at, res)
}

func (h *history) refreshAny(t *rapid.T) { h.refreshWith(t, h.anyToken(t)) }

// refreshOften refreshes more often than spent tokens are remembered.
func (h *history) refreshOften(t *rapid.T) {
	s := h.anySession(t)
	for range rapid.SampledFrom([]int{3, 3, 4, 16, 17}).Draw(t, "times") {
		h.refreshWith(t, s.current())
	}
}

func (h *history) refreshWith(t *rapid.T, r *refreshToken) {
	i, at := h.instance(t)
	t.Logf("refresh with %s at instance %d", r.name, i)
	res := h.pair[i].Client().Get("/api/auth/refresh", servicetest.Cookies("refreshToken="+r.value))
	if h.won(t, r, nil, at) {
		h.is(t, res, response{200, servicetest.Success, 2})
		h.issued(t, r.session, at, res)
	} else {
		h.is(t, res, response{400, servicetest.InvalidRefresh, 0})
	}
}

// won is model.refresh, and counts what it finds.
func (h *history) won(t *rapid.T, r *refreshToken, of *session, at moment) bool {
	won, reused := h.model.refresh(r, of, at)
	if reused {
		h.events["reused"]++
		t.Logf("    is a theft: %s is revoked", r.session.name)
	}
	return won
}

// sessionAny asks for the session with any JWT and any refresh token, each its own or another session's.
func (h *history) sessionAny(t *rapid.T) {
	j := h.anyJWT(t)
	r := j.session.tokens[len(j.session.tokens)-1]
	if rapid.Bool().Draw(t, "any token") {
		r = h.anyToken(t)
	}
	i, at := h.instance(t)
	t.Logf("session with %s and %s at instance %d", j.name, r.name, i)
	res := h.pair[i].Client().Get("/api/auth/session", servicetest.Cookies("token="+j.value+"; refreshToken="+r.value))
	switch {
	case at.instance.Before(j.expires):
		h.is(t, res, response{200, servicetest.Authenticated, 0})
	case h.won(t, r, j.session, at):
		h.is(t, res, response{200, servicetest.Authenticated, 2})
		h.issued(t, r.session, at, res)
	default:
		h.is(t, res, response{400, servicetest.SessionInvalidRefresh, 0})
	}
}

func (h *history) signOutAny(t *rapid.T) {
	var tokens []*refreshToken
	var jwts []*jwt
	var cookies, names []string
	for range rapid.IntRange(0, 2).Draw(t, "tokens") {
		r := h.anyToken(t)
		tokens, cookies, names = append(tokens, r), append(cookies, "refreshToken="+r.value), append(names, r.name)
	}
	for range rapid.IntRange(0, 2).Draw(t, "JWTs") {
		j := h.anyJWT(t)
		jwts, cookies, names = append(jwts, j), append(cookies, "token="+j.value), append(names, j.name)
	}
	path := "/sign-out"
	everywhere := rapid.Bool().Draw(t, "everywhere")
	if everywhere {
		path += "?everywhere=true"
	}
	i, at := h.instance(t)
	t.Logf("POST %s with %q at instance %d", path, names, i)
	res := h.pair[i].Client().Do("POST", path, "", servicetest.Cookies(strings.Join(cookies, "; ")))
	h.events["signed_out"] += h.model.signOut(tokens, jwts, everywhere, at)
	want := response{204, "", 2}
	if len(tokens) == 2 && tokens[0] != tokens[1] || len(jwts) == 2 && jwts[0] != jwts[1] {
		want.cookies = len(res.Header.Values("Set-Cookie")) // the scopes that it heals are not this model's
	}
	h.is(t, res, want)
}

func (h *history) joinAny(t *rapid.T) {
	j := h.anyJWT(t)
	i, at := h.instance(t)
	t.Logf("join with %s at instance %d", j.name, i)
	h.is(t, h.pair[i].Client().Post("/api/event/join/"+h.event, "", servicetest.Cookies("token="+j.value)), j.event(at))
}

func (h *history) wait(t *rapid.T) {
	d := rapid.SampledFrom([]time.Duration{
		time.Second, 10 * time.Second, 50 * time.Second, 59 * time.Second, 59*time.Second + 999*time.Millisecond, time.Minute,
		3 * time.Minute, 5 * time.Minute, 14 * time.Minute, 15 * time.Minute, 16 * time.Minute, 45 * time.Minute, 59 * time.Minute, time.Hour, 23 * time.Hour,
		24*time.Hour - time.Second, 24 * time.Hour,
	}).Draw(t, "duration")
	t.Logf("%v pass", d)
	h.advance(t, d)
}

func (h *history) pruneAll(t *rapid.T) {
	i, at := h.instance(t)
	t.Logf("instance %d prunes", i)
	for last, again := (models.ID{}), true; again; again = !last.IsZero() {
		var err error
		if last, _, err = h.pair[i].Store.PruneSessions(t.Context(), last); err != nil {
			t.Fatal(err)
		}
	}
	h.prune(at)
}

// is fails the history unless a response is the model's. An error is known by its code.
func (h *history) is(t *rapid.T, res *servicetest.Response, want response) {
	got := response{res.Status, res.Body, len(res.Header.Values("Set-Cookie"))}
	if res.Status == http.StatusUnauthorized {
		got.body = res.Error().Code
	}
	if got != want {
		t.Logf("    got %+v, want %+v", got, want)
		t.Fatal("a response is not the model's")
	}
}

// issued adds the tokens that a response sets, and checks the JWT.
func (h *history) issued(t *rapid.T, s *session, at moment, res *servicetest.Response) {
	j := h.issue(s, at, res.Cookie("token").Value, res.Cookie("refreshToken").Value)
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(j.value, ".")[1])
	var claims struct {
		SID string
		Exp int64
	}
	if err != nil || json.Unmarshal(payload, &claims) != nil {
		t.Fatal("a JWT cannot be read")
	}
	if s.id == "" {
		s.id = claims.SID
	}
	if claims.SID != s.id || claims.Exp != j.expires.Unix() {
		t.Logf("    %s: got %+v, want session %s and expiry %d", j.name, claims, s.id, j.expires.Unix())
		t.Fatal("a JWT is not the model's")
	}
}

// check holds the rows against the model.
func (h *history) check(t *rapid.T) {
	names := map[string]string{}
	for _, s := range h.sessions {
		names[s.id] = s.name
	}
	rows, err := h.db.DB.Query(`
		SELECT CAST(s.id AS text), CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN token_hash IS NULL THEN 'displaced' ELSE 'live' END
		FROM sessions s JOIN users u ON u.id = s.user_id WHERE username IN ($1, $2) ORDER BY s.id`, h.users[0], h.users[1])
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got strings.Builder
	for rows.Next() {
		var id, state string
		if err := rows.Scan(&id, &state); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "%s %s\n", names[id], state)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if want := h.String(); got.String() != want {
		t.Logf("    sessions are\n%swant\n%s", &got, want)
		t.Fatal("the sessions are not the model's")
	}
}
