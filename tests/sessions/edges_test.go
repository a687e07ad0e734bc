package sessions

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// expires returns when the JWT of a response expires.
func expires(t *testing.T, res *servicetest.Response) time.Time {
	t.Helper()
	_, claims := servicetest.DecodeJWT(t, res.Cookie("token").Value)
	return time.Unix(int64(claims["exp"].(float64)), 0)
}

// A session that a JWT names must be its user's: a signature alone opens nobody else's.
func TestJWTOfAnotherUsersSession(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		_, claims := servicetest.DecodeJWT(t, bob.Session.Token)
		for _, ttl := range []time.Duration{time.Minute, -time.Second} {
			mixed := "token=" + s.JWT(s.Claims(alice.Session.UserID, ttl).And("sid", claims["sid"]))
			code := "invalid_token"
			if ttl < 0 {
				code = "token_expired"
				for _, refreshToken := range []string{alice.Session.RefreshToken, bob.Session.RefreshToken} {
					s.Client().Get(servicetest.SessionPath, servicetest.Cookies(mixed+"; refreshToken="+refreshToken)).Is(400, servicetest.SessionInvalidRefresh).SetsNoCookie()
				}
			}
			for _, tag := range []string{"", "*"} {
				s.Client().Get(servicetest.Plaza, servicetest.Cookies(mixed), servicetest.IfNoneMatch(tag)).IsError(401, code)
			}
			s.Client().Post(servicetest.Plaza, servicetest.EventBody, servicetest.Cookies(mixed)).IsError(401, code)
			for _, form := range []string{"", "?everywhere=true"} {
				s.Client().Post("/sign-out"+form, "", servicetest.Cookies(mixed)).Is(204, "")
			}
		}
		for _, user := range []*servicetest.Client{alice, bob} {
			user.Get(servicetest.Plaza).Is(200, servicetest.List())
			user.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
		}
	})
}

// A sid that is no id names no session: it opens nothing and ends nothing. One that is no text makes no JWT.
func TestJWTWithOddSession(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		_, claims := servicetest.DecodeJWT(t, alice.Session.Token)
		sid := claims["sid"].(string)
		for _, test := range []struct {
			name             string
			sid              any
			valid, none, odd bool
		}{
			{"no id", "x", true, false, true},
			{"upper case", strings.ToUpper(sid), true, false, true},
			{"in braces", "{" + sid + "}", true, false, true},
			{"zero", models.ID{}.String(), true, false, true},
			{"unknown", servicetest.IDOf(1), true, false, false},
			{"empty", "", true, true, false},
			{"null", nil, true, true, false},
			{"number", 7, false, false, true},
			{"array", []string{sid}, false, false, true},
			{"object", map[string]string{"id": sid}, false, false, true},
			{"boolean", true, false, false, true},
		} {
			s.Run(t, test.name, func(t *testing.T) {
				token := func(ttl time.Duration) string {
					return "token=" + s.JWT(s.Claims(alice.Session.UserID, ttl).And("sid", test.sid))
				}
				valid, expired := servicetest.Cookies(token(time.Minute)), servicetest.Cookies(token(-time.Second)+"; refreshToken="+alice.Cookie("refreshToken"))
				if test.none {
					s.Client().Get(servicetest.Plaza, valid).Is(200, servicetest.List())
					res := s.Client().Get(servicetest.SessionPath, expired).Is(200, servicetest.Authenticated)
					alice.SetCookie("refreshToken", res.Cookie("refreshToken").Value)
				} else {
					s.Client().Get(servicetest.Plaza, valid).IsError(401, "invalid_token")
					body := servicetest.SessionInvalidRefresh
					if !test.valid {
						body = servicetest.SessionInvalid
					}
					s.Client().Get(servicetest.SessionPath, expired).Is(400, body).SetsNoCookie()
				}
				s.Client().Post("/sign-out", "", valid).Is(204, "")
				s.Client().Post("/sign-out?everywhere=true", "", valid).Is(204, "")
				alice.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
			})
		}
	})
}

// Sign-out ends every session that it is sent, of the first sixteen values, and no other.
func TestSignOutWithManyCookies(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		var cookies []string
		users := make([]*servicetest.Client, 18)
		for i := range users {
			users[i] = s.SignIn(fmt.Sprint("user", i))
			if i > 0 {
				cookies = append(cookies, "refreshToken="+users[i].Cookie("refreshToken"))
			}
		}
		for i := range 300 { // the same values again, and odd ones, behind them
			cookies = append(cookies, cookies[i%len(users)], fmt.Sprint("refreshToken=odd", i))
		}
		cookies = append(cookies, "token="+users[0].Cookie("token")) // where both name users the refresh tokens decide
		s.Client().Post("/sign-out", "", servicetest.Cookies(strings.Join(cookies, "; "))).Is(204, "")
		for i, user := range users {
			if i == 0 || i == 17 {
				user.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
			} else {
				user.Get(servicetest.RefreshPath).Is(400, servicetest.InvalidRefresh)
				user.Get(servicetest.Plaza).IsError(401, "invalid_token")
			}
		}
	})
}

// The last sixteen spent tokens are known to be recent. One more shows as theft, however recent it is.
func TestRefreshReplayOfManyQuickOnes(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		s.Clock.Freeze(time.Now())
		tokens := []string{s.SignIn("alice").Session.RefreshToken}
		refreshAgain := func() {
			tokens = append(tokens, refreshAt(s, tokens[len(tokens)-1]).Is(200, servicetest.Success).Cookie("refreshToken").Value)
		}
		for range 16 {
			refreshAgain()
		}
		for _, token := range tokens[:16] {
			spentAt(s, token)
		}
		refreshAgain()
		spentAt(s, tokens[1])
		refreshAgain()
		spentAt(s, tokens[2])
		refreshAgain()
		spentAt(s, tokens[0])
		spentAt(s, tokens[len(tokens)-1])
	})
}

// Each spent token has its own leeway, also when refreshes follow one another.
func TestRefreshReplayOfSeveral(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		s.Clock.Freeze(time.Now())
		for _, test := range []struct {
			name           string
			between, after time.Duration // the two refreshes; the second and the replay
			replay         int           // which of the two tokens comes back
			revokes        bool
		}{
			{"the first within its leeway", 30 * time.Second, 29*time.Second + 999*time.Millisecond, 0, false},
			{"the first after it", 30 * time.Second, 30 * time.Second, 0, true},
			{"the second meanwhile", 30 * time.Second, 30 * time.Second, 1, false},
			{"the second within its leeway", 30 * time.Second, 59*time.Second + 999*time.Millisecond, 1, false},
			{"the second after it", 30 * time.Second, 60 * time.Second, 1, true},
			{"the first at the end of its leeway", 59*time.Second + 900*time.Millisecond, 99 * time.Millisecond, 0, false},
			{"the first when its leeway has ended before the second", 60 * time.Second, 0, 0, true},
		} {
			s.Run(t, test.name, func(t *testing.T) {
				alice := s.SignIn(test.name)
				tokens := []string{alice.Cookie("refreshToken")}
				alice.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
				s.Clock.Advance(test.between)
				tokens = append(tokens, alice.Cookie("refreshToken"))
				alice.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
				s.Clock.Advance(test.after)
				spentAt(s, tokens[test.replay])
				if test.revokes {
					spentAt(s, alice.Cookie("refreshToken"))
				} else {
					alice.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
				}
			})
		}
	})
}

// A session ends at its age, however often it is refreshed, and its last JWT with it.
func TestSessionMaxAge(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		begin := time.Now().Truncate(time.Second)
		s.Clock.Freeze(begin)
		alice := s.Client()
		res := alice.Post("/sign-in", "username=alice", servicetest.AsForm)
		for _, test := range []struct{ at, lives time.Duration }{
			{0, 15 * time.Minute}, {15 * time.Minute, 15 * time.Minute}, {15*time.Minute + time.Second, 15*time.Minute - time.Second},
			{30*time.Minute - time.Second, time.Second},
		} {
			now := begin.Add(test.at)
			if s.Clock.Freeze(now); test.at > 0 {
				res = alice.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
			}
			servicetest.Is(t, expires(t, res).Sub(now), test.lives, "after %v the JWT lives", test.at)
			for _, line := range res.Header.Values("Set-Cookie") {
				servicetest.Contains(t, line, fmt.Sprintf("; Max-Age=%d;", (30*time.Minute-test.at)/time.Second))
			}
		}
		alice.Get(servicetest.Plaza).Is(200, servicetest.List())
		s.Clock.Freeze(begin.Add(30 * time.Minute))
		alice.Get(servicetest.Plaza).IsError(401, "token_expired")
		alice.Get(servicetest.RefreshPath).Is(400, servicetest.InvalidRefresh).SetsNoCookie()
		alice.Get(servicetest.SessionPath).Is(400, servicetest.SessionInvalidRefresh).SetsNoCookie()
	}, halfAnHour)
}

// halfAnHour is how long a session lives.
func halfAnHour(o *servicetest.Options) { o.Sessions.MaxAge = 30 * time.Minute }

// In the last second of a session there is nothing to refresh: JWTs have whole seconds, and that one would have expired.
func TestSessionMaxAgeLastSecond(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		begin := time.Now().Truncate(time.Second).Add(700 * time.Millisecond)
		s.Clock.Freeze(begin)
		alice := s.SignIn("alice")
		s.Clock.Freeze(begin.Add(30*time.Minute - time.Second))
		res := alice.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
		servicetest.True(t, expires(t, res).After(begin.Add(30*time.Minute-time.Second)), "the JWT lives")
		alice.Get(servicetest.Plaza).Is(200, servicetest.List())
		for _, left := range []time.Duration{999 * time.Millisecond, 500 * time.Millisecond, time.Millisecond} {
			s.Clock.Freeze(begin.Add(30*time.Minute - left))
			alice.Get(servicetest.RefreshPath).Is(400, servicetest.InvalidRefresh).SetsNoCookie()
			if left < 700*time.Millisecond { // the JWT has expired
				alice.Get(servicetest.SessionPath).Is(400, servicetest.SessionInvalidRefresh).SetsNoCookie()
			}
		}
	}, halfAnHour)
}

// A session that is over takes no place of one that lives, however late it was refreshed.
func TestSessionMaxAgeAndLimit(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		begin := time.Now().Truncate(time.Second)
		after := func(minutes time.Duration) { s.Clock.Freeze(begin.Add(minutes * time.Minute)) }
		after(0)
		old := s.SignIn("alice")
		after(20)
		young := s.SignIn("alice")
		after(29)
		old.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
		after(31)
		s.SignIn("alice")
		young.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
	}, upTo(2), halfAnHour)
}

// prune walks all sessions.
func prune(t *testing.T, s *servicetest.Service) (deleted int64) {
	t.Helper()
	for last, again := (models.ID{}), true; again; again = !last.IsZero() {
		next, n, err := s.Store.PruneSessions(t.Context(), last)
		servicetest.NoError(t, err)
		last, deleted = next, deleted+n
	}
	return deleted
}

// Pruning deletes a session only when nothing of it works, and then soon.
func TestPruneSessions(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		begin := time.Now().Truncate(time.Second)
		s.Clock.Freeze(begin)
		displaced, user := s.SignIn("alice"), s.SignIn("bob")
		fresh := s.SignIn("alice")
		revoked := s.SignIn("carol")
		revoked.Post("/sign-out", "").Is(204, "")
		for _, step := range []struct {
			at      time.Duration
			deleted int64
		}{{15*time.Minute - time.Second, 0}, {16 * time.Minute, 0}, {16*time.Minute + time.Second, 2}, {720*time.Hour - time.Second, 0}} {
			s.Clock.Freeze(begin.Add(step.at))
			servicetest.Is(t, prune(t, s), step.deleted, "after %v: rows deleted", step.at)
			if step.at < 15*time.Minute {
				displaced.Get(servicetest.Plaza).Is(200, servicetest.List())
			}
		}
		fresh.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
		s.Clock.Freeze(begin.Add(720*time.Hour + 16*time.Minute + time.Second))
		user.Get(servicetest.RefreshPath).Is(400, servicetest.InvalidRefresh)
		servicetest.Is(t, prune(t, s), 1, "rows deleted: bob's")
		servicetest.Is(t, s.Database.Count("sessions"), 1, "sessions, which is alice's")
		fresh.Get(servicetest.Plaza).IsError(401, "token_expired")
		fresh.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
	})
}

// Batches reach all rows, and those between two batches.
func TestManySessions(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		user := s.AddUser("alice")
		id, hash := "CAST('00000000-0000-7000-8000-' || lpad(CAST(i AS text), 12, '0') AS uuid)", "sha256(convert_to(CAST(i AS text), 'UTF8'))"
		if s.Database.Dialect == "sqlite" {
			id, hash = "printf('00000000-0000-7000-8000-%012d', i)", "CAST(printf('%032d', i) AS BLOB)"
		}
		for _, test := range []struct {
			name, expiry string
			change       func() int64
			left         int
		}{
			{"prune", "2001-01-01 00:00:00+00:00", func() int64 { return prune(t, s) }, 0},
			{"revoke", "2999-01-01 00:00:00+00:00", func() int64 { return servicetest.Must(s.Store.RevokeAll(t.Context()))(t) }, 2000},
		} {
			s.Run(t, test.name, func(t *testing.T) {
				s.Database.Exec(fmt.Sprintf(`
					INSERT INTO sessions (id, user_id, handle_hash, created_at, device, network, refreshed_at, expires_at, token_hash, spent)
					WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
					SELECT %s, '%s', %s, '2000-01-01 00:00:00+00:00', '', '', '2000-01-01 00:00:00+00:00', '%s', %[3]s, %[3]s FROM n`,
					id, user, hash, test.expiry))
				servicetest.Is(t, test.change(), 2000, "rows")
				servicetest.Is(t, s.Database.Count("sessions WHERE token_hash IS NULL"), test.left, "rows are left")
				servicetest.Is(t, test.change(), 0, "rows the second time")
			})
		}
	})
}

// In each mode of pgx, which poolers make necessary, all of a session works.
func TestSessionsInExecModes(t *testing.T) {
	t.Parallel()
	for i, mode := range []string{"exec", "simple_protocol", "cache_describe", "describe_exec"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			db := servicetest.Postgres(t)
			db.URL += "&default_query_exec_mode=" + mode
			s := servicetest.Start(t, db, upTo(2), func(o *servicetest.Options) {
				o.DatabaseClock, o.Sessions.MaxAge = i%2 == 0, time.Hour
			})
			first, second := s.SignIn("alice"), s.SignIn("alice")
			spent := first.Cookie("refreshToken")
			for range 3 {
				first.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
			}
			spentAt(s, spent)
			s.Database.Exec("UPDATE sessions SET spent = '', refreshed_at = refreshed_at - interval '1 hour' WHERE spent <> ''")
			first.Post(servicetest.Plaza, servicetest.EventBody).Is(200, servicetest.Success)
			spentAt(s, spent)
			first.Post(servicetest.Plaza, servicetest.EventBody).IsError(401, "invalid_token")
			second.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
			servicetest.Is(t, prune(t, s), 1, "rows deleted")
			second.Post("/sign-out?everywhere=true", "").Is(204, "")
			third := s.SignIn("alice")
			servicetest.Is(t, servicetest.Must(s.Store.RevokeAll(t.Context()))(t), 1, "sessions revoked")
			third.Get(servicetest.RefreshPath).Is(400, servicetest.InvalidRefresh)
		})
	}
}
