package sessionmodel

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// model says what every response must be. It holds what tokens a session has had, where the service holds hashes.
type model struct {
	policy   models.SessionPolicy
	sessions []*session
}

// session is what one sign-in began. Sessions stand in the order of their sign-ins.
type session struct {
	name      string
	user      int
	id        string
	created   time.Time
	refreshed time.Time
	state     state
	// tokens are all refresh tokens that it has had, the current or last one at the end.
	tokens []*refreshToken
	jwts   []*jwt
}

// state is what became of a session. One that has expired stays live, but is refreshed no more.
type state string

const (
	live      state = "live"
	displaced state = "displaced" // a newer sign-in has taken the refresh token
	revoked   state = "revoked"
	pruned    state = "pruned"
)

type refreshToken struct {
	name, value string
	session     *session
	spent       time.Time
}

type jwt struct {
	name, value string
	session     *session
	expires     time.Time
}

// moment is the time at which a request is handled: the database's clock decides about sessions, the instance's about
// JWTs.
type moment struct{ database, instance time.Time }

// response is what a request gets.
type response struct {
	status int
	body   string
	// cookies are the lines of Set-Cookie.
	cookies int
}

// leftover is how long the row of a session stays after its last refresh or its expiry: a JWT lives 15 minutes, and
// clocks may be a minute apart.
const leftover = 16 * time.Minute

func (s *session) current() *refreshToken { return s.tokens[len(s.tokens)-1] }

// fresh reports whether the session has not expired. In the last second of its age it has: the JWT of a refresh, which has whole
// seconds, would have expired.
func (m *model) fresh(s *session, now time.Time) bool {
	return now.Before(s.refreshed.Add(m.policy.TTL)) && (m.policy.MaxAge == 0 || !now.After(s.created.Add(m.policy.MaxAge-time.Second)))
}

// signIn begins a session and takes the refresh tokens of those beyond the limit.
func (m *model) signIn(user int, at moment) *session {
	var own []*session
	for _, s := range m.sessions {
		if s.user == user && s.state == live {
			own = append(own, s)
		}
	}
	slices.SortStableFunc(own, func(a, b *session) int {
		if fresh := m.fresh(a, at.database); fresh != m.fresh(b, at.database) {
			return map[bool]int{false: -1, true: 1}[fresh]
		}
		return a.refreshed.Compare(b.refreshed)
	})
	for _, s := range own[:max(0, len(own)-m.policy.PerUser+1)] {
		s.state = displaced
	}
	s := &session{name: fmt.Sprint("s", len(m.sessions)), user: user, state: live, created: at.database}
	m.sessions = append(m.sessions, s)
	return s
}

// issue adds the tokens that a response has set.
func (m *model) issue(s *session, at moment, token, refresh string) *jwt {
	s.refreshed = at.database
	s.tokens = append(s.tokens, &refreshToken{name: fmt.Sprintf("%s.r%d", s.name, len(s.tokens)), value: refresh, session: s})
	expires := at.instance.Truncate(time.Second).Add(15 * time.Minute)
	if ends := s.created.Add(m.policy.MaxAge); m.policy.MaxAge > 0 && ends.Before(expires) {
		expires = ends.Truncate(time.Second)
	}
	s.jwts = append(s.jwts, &jwt{fmt.Sprintf("%s.j%d", s.name, len(s.jwts)), token, s, expires})
	return s.jwts[len(s.jwts)-1]
}

// refresh spends a token, which with an expired JWT must be of that JWT's session. It reports whether the token wins,
// and whether it shows a theft.
func (m *model) refresh(r *refreshToken, of *session, at moment) (won, reused bool) {
	s := r.session
	switch {
	case s.state != live, of != nil && of != s, !m.fresh(s, at.database):
		return false, false
	case r == s.current():
		r.spent = at.database
		return true, false
	}
	age := len(s.tokens) - 1 - slices.Index(s.tokens, r)
	if age <= 16 && at.database.Before(r.spent.Add(m.policy.ReuseLeeway)) {
		return false, false
	}
	s.state = revoked
	return false, true
}

// event is what an event operation with this JWT gets.
func (j *jwt) event(at moment) response {
	switch {
	case !at.instance.Before(j.expires):
		return response{401, "token_expired", 0}
	case j.session.state == revoked:
		return response{401, "invalid_token", 0}
	}
	return response{200, servicetest.Success, 0}
}

// signOut revokes sessions, and returns how many.
func (m *model) signOut(tokens []*refreshToken, jwts []*jwt, everywhere bool, at moment) (ended int) {
	revoke := func(s *session) {
		if s.state == live || s.state == displaced {
			s.state, ended = revoked, ended+1
		}
	}
	if everywhere {
		users := map[int]bool{}
		for _, r := range tokens {
			if s := r.session; s.state == live && r == s.current() && m.fresh(s, at.database) {
				users[s.user] = true
			}
		}
		for _, j := range jwts {
			if j.event(at).status == 200 {
				users[j.session.user] = true
			}
		}
		for _, s := range m.sessions {
			if users[s.user] {
				revoke(s)
			}
		}
	}
	known := false
	for _, r := range tokens {
		known = known || r.session.state != pruned
		revoke(r.session)
	}
	if !known {
		for _, j := range jwts {
			revoke(j.session)
		}
	}
	return ended
}

// prune forgets the sessions of which no refresh token and no JWT is valid.
func (m *model) prune(at moment) {
	for _, s := range m.sessions {
		last := s.refreshed.Add(leftover)
		if s.state == live {
			last = last.Add(m.policy.TTL)
		}
		if m.policy.MaxAge > 0 && last.After(s.created.Add(m.policy.MaxAge+leftover)) {
			last = s.created.Add(m.policy.MaxAge + leftover)
		}
		if at.database.After(last) {
			s.state = pruned
		}
	}
}

// String lists the sessions that have rows.
func (m *model) String() string {
	var b strings.Builder
	for _, s := range m.sessions {
		if s.state != pruned {
			fmt.Fprintf(&b, "%s %s\n", s.name, s.state)
		}
	}
	return b.String()
}
