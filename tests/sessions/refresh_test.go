package sessions

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"worldevents/server"
	"worldevents/tests/servicetest"
)

var refreshToken = regexp.MustCompile(`^[0-9a-f]{128}$`)

func TestRefreshReplacesBothCookies(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		seen := map[string]bool{alice.Cookie("token"): true, alice.Cookie("refreshToken"): true}
		for range 3 {
			res := alice.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
			servicetest.True(t, refreshToken.MatchString(res.Cookie("refreshToken").Value), "a refresh token: %s", res.Cookie("refreshToken").Value)
			for _, name := range []string{"token", "refreshToken"} {
				value := res.Cookie(name).Value
				servicetest.True(t, !seen[value], "%s is another", name)
				seen[value] = true
			}
			at := expires(t, res).UTC().Format("2006-01-02T15:04:05.000Z")
			res.HasHeader("Session-User", "alice").HasHeader("Session-Expires", at).HasHeader("Cache-Control", "no-store")
			alice.Get(servicetest.SessionPath).Is(200, servicetest.Authenticated).HasHeader("Session-Expires", at)
		}
	})
}

// Only refreshToken counts, whatever the JWT.
func TestRefreshRefusals(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice").Session, s.SignIn("bob").Session
		current := "refreshToken=" + alice.RefreshToken
		for _, test := range []struct {
			name, cookies, body string
		}{
			{"no cookie", "", servicetest.NoRefresh},
			{"a JWT alone", "token=" + alice.Token, servicetest.NoRefresh},
			{"empty", "refreshToken=", servicetest.NoRefresh},
			{"the name in another case", "refreshtoken=" + alice.RefreshToken, servicetest.NoRefresh},
			{"unknown", "refreshToken=" + servicetest.RefreshToken(3), servicetest.InvalidRefresh},
			{"too short", current[:len(current)-1], servicetest.InvalidRefresh},
			{"too long", current + "0", servicetest.InvalidRefresh},
			{"in upper case", "refreshToken=" + strings.ToUpper(alice.RefreshToken), servicetest.InvalidRefresh},
			{"quoted", `refreshToken="` + alice.RefreshToken + `"`, servicetest.InvalidRefresh},
			{"percent-encoded", "refreshToken=" + fmt.Sprintf("%%%x", alice.RefreshToken[0]) + alice.RefreshToken[1:], servicetest.InvalidRefresh},
			{"a JWT", "refreshToken=" + alice.Token, servicetest.InvalidRefresh},
			{"SQL", "refreshToken=' OR '1'='1", servicetest.InvalidRefresh},
			{"the stored hash", "refreshToken=" + strings.Repeat(servicetest.KeyID([]byte(alice.RefreshToken)), 8), servicetest.InvalidRefresh},
		} {
			s.Run(t, test.name, func(t *testing.T) {
				s.Client().Get(servicetest.RefreshPath, servicetest.Cookies(test.cookies)).Is(400, test.body).SetsNoCookie()
			})
		}
		// The JWT is not looked at: garbage, another user's, or none.
		s.Client().Get(servicetest.RefreshPath, servicetest.Cookies(current+"; token="+bob.Token)).Is(200, servicetest.Success).HasHeader("Session-User", "alice")
		s.Client().Get(servicetest.RefreshPath, servicetest.Cookies("token=garbage; refreshToken="+bob.RefreshToken)).Is(200, servicetest.Success).HasHeader("Session-User", "bob")
	})
}

func TestRefreshTokenIsStoredAsHashAlone(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		signedIn := alice.Cookie("refreshToken")
		alice.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
		var handle, current, spent []byte
		s.Database.Read("SELECT handle_hash, token_hash, spent FROM sessions", nil, &handle, &current, &spent)
		for value, stored := range map[string][]byte{signedIn[:32]: handle, alice.Cookie("refreshToken"): current, signedIn: spent[:6]} {
			hash := sha256.Sum256([]byte(value))
			servicetest.Is(t, stored, hash[:len(stored)], "what is stored of %s", value)
		}
		servicetest.Is(t, len(spent), 12, "bytes of a spent value")
	})
}

func TestRefreshReplay(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		s.Clock.Freeze(time.Now())
		reused := 0
		for after, revokes := range map[time.Duration]bool{0: false, 59 * time.Second: false, 60 * time.Second: true, 72 * time.Hour: true} {
			s.Run(t, after.String(), func(t *testing.T) {
				alice := s.SignIn("alice " + after.String())
				spent := alice.Cookie("refreshToken")
				alice.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
				s.Clock.Advance(after)
				spentAt(s, spent)
				if revokes {
					reused++
				}
				servicetest.Is(t, strings.Count(s.Log.String(), `"event":"reused"`), reused, "lines of theft")
				servicetest.Is(t, servicetest.Metric(t, s, `worldevents_refreshes_total{outcome="reused"}`), float64(reused), "thefts counted")
				if !revokes {
					alice.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
					return
				}
				current := alice.Cookie("refreshToken")
				alice.Get(servicetest.RefreshPath).Is(400, servicetest.InvalidRefresh).SetsNoCookie()
				servicetest.Is(t, alice.Cookie("refreshToken"), current, "the cookie after a refusal")
				// The session's JWT ends with it; the session endpoint does not look. The user can sign in again.
				if after < 15*time.Minute {
					alice.Get(servicetest.Plaza).IsError(401, "invalid_token")
					alice.Get(servicetest.SessionPath).Is(200, servicetest.Authenticated)
				}
				s.SignIn(alice.Session.Username).Get(servicetest.RefreshPath).Is(200, servicetest.Success)
			})
		}
	})
}

// A thief who has refreshed is found out by the owner's first use of any spent value, at either endpoint, however many refreshes ago.
func TestRefreshReplayOfOlderValue(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		for n, refreshes := range []int{0, 1, 14, 15, 16, 19} {
			alice := s.SignIn("alice")
			oldest := "refreshToken=" + alice.Cookie("refreshToken")
			for range refreshes + 1 {
				alice.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
				s.Clock.Advance(5 * time.Minute)
			}
			if n%2 == 0 {
				s.Client().Get(servicetest.RefreshPath, servicetest.Cookies(oldest)).Is(400, servicetest.InvalidRefresh).SetsNoCookie()
			} else {
				s.Client().Get(servicetest.SessionPath, servicetest.Cookies("token="+s.ExpiredSession(alice.Session)+"; "+oldest)).Is(400, servicetest.SessionInvalidRefresh).SetsNoCookie()
			}
			alice.Get(servicetest.RefreshPath).Is(400, servicetest.InvalidRefresh).SetsNoCookie()
			alice.Get(servicetest.Plaza).IsError(401, "invalid_token")
		}
		servicetest.Is(t, strings.Count(s.Log.String(), `"event":"reused"`), 6, "lines of theft, one for each session")
	})
}

// Signing in on a second device ends the first one's session, whose cookies then harm nobody, however late.
func TestRefreshAfterSignInElsewhere(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		first := s.SignIn("alice")
		before := "refreshToken=" + first.Cookie("refreshToken")
		first.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
		second := s.SignIn("alice")
		s.Clock.Advance(2 * time.Minute)
		first.Get(servicetest.RefreshPath).Is(400, servicetest.InvalidRefresh).SetsNoCookie()
		s.Client().Get(servicetest.RefreshPath, servicetest.Cookies(before)).Is(400, servicetest.InvalidRefresh)
		servicetest.Lacks(t, s.Log.String(), `"event":"reused"`)
		second.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
	})
}

// Signing in again ends what the browser held, also where a user may have more sessions: nobody who has copied its refresh
// token goes on.
func TestRefreshAfterSignInAgain(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, other := s.SignIn("alice"), s.SignIn("alice")
		thief := s.Client()
		thief.Get(servicetest.RefreshPath, servicetest.Cookies("refreshToken="+alice.Cookie("refreshToken"))).Is(200, servicetest.Success)
		copied, jwt := alice.Cookie("refreshToken"), alice.Cookie("token")
		alice.Get(servicetest.RefreshPath).Is(400, servicetest.InvalidRefresh) // the thief was faster
		alice.Post("/sign-in", "username=alice", servicetest.AsForm).Is(303, "")
		thief.Get(servicetest.RefreshPath).Is(400, servicetest.InvalidRefresh).SetsNoCookie()
		s.Client().Get(servicetest.RefreshPath, servicetest.Cookies("refreshToken="+copied)).Is(400, servicetest.InvalidRefresh)
		s.Client().Get(servicetest.Plaza, servicetest.Cookies("token="+jwt)).Is(200, `{"events":[]}`)
		alice.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
		other.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
		alice.Post("/sign-in", "username=bob", servicetest.AsForm).Is(303, "") // and as somebody else
		servicetest.Is(t, s.Database.Count("sessions WHERE token_hash IS NOT NULL"), 2, "sessions that can be refreshed: alice's other one and bob's")
	}, upTo(5))
}

func TestRefreshLifetime(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		begin := time.Now().UTC().Truncate(time.Second)
		s.Clock.Freeze(begin)
		alice := s.SignIn("alice")
		s.Clock.Advance(720*time.Hour - time.Second)
		alice.Get(servicetest.RefreshPath).Is(200, servicetest.Success) // and 30 days begin anew
		s.Clock.Advance(720*time.Hour - time.Second)
		alice.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
		s.Clock.Advance(720 * time.Hour)
		alice.Get(servicetest.RefreshPath).Is(400, servicetest.InvalidRefresh).SetsNoCookie()
		alice.Get(servicetest.SessionPath).Is(400, servicetest.SessionInvalidRefresh).SetsNoCookie()
	})
}

func TestRefreshCookieAttributes(t *testing.T) {
	base := func(text string) servicetest.Option {
		return func(o *servicetest.Options) { o.BaseURL, _ = url.Parse(text) }
	}
	for _, test := range []struct {
		name       string
		changes    []servicetest.Option
		attributes string
	}{
		{"development", nil, "Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax"},
		{"production", []servicetest.Option{servicetest.Production}, "Path=/; Max-Age=2592000; HttpOnly; Secure; SameSite=None"},
		{"lifetime", []servicetest.Option{func(o *servicetest.Options) { o.Sessions.TTL = 90 * time.Minute }}, "Path=/; Max-Age=5400; HttpOnly; SameSite=Lax"},
		{"base URL with a path", []servicetest.Option{base("https://example.org/a%20b/c/")}, "Path=/a%20b/c; Max-Age=2592000; HttpOnly; SameSite=Lax"},
		{"base URL with a slash", []servicetest.Option{base("https://example.org/")}, "Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax"},
		{"domain and partitioned", []servicetest.Option{servicetest.Production, base("https://api.example.org"), func(o *servicetest.Options) {
			o.CookieDomain, o.CookiePartitioned = "example.org", true
		}}, "Path=/; Domain=example.org; Max-Age=2592000; HttpOnly; Secure; SameSite=None; Partitioned"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := servicetest.New(t, test.changes...)
			alice := s.SignIn("alice").Session
			check := func(what string, res *servicetest.Response, attributes string) {
				t.Helper()
				servicetest.Is(t, len(res.Header["Set-Cookie"]), 2, "%s: cookies", what)
				for _, name := range []string{"token", "refreshToken"} {
					servicetest.Is(t, res.Cookie(name).Raw, name+"="+res.Cookie(name).Value+"; "+attributes, "%s", what)
				}
			}
			res := s.Client().Get(servicetest.RefreshPath, servicetest.Cookies("refreshToken="+alice.RefreshToken)).Is(200, servicetest.Success)
			check("refresh", res, test.attributes)
			cookies := "token=" + s.Expired(alice.UserID) + "; refreshToken=" + res.Cookie("refreshToken").Value
			res = s.Client().Get(servicetest.SessionPath, servicetest.Cookies(cookies)).Is(200, servicetest.Authenticated)
			check("session", res, test.attributes)
			// Browsers drop a cookie only when it is cleared with the attributes that it was set with.
			cleared := regexp.MustCompile(`Max-Age=\d+`).ReplaceAllString(test.attributes, "Max-Age=0")
			check("sign-out", s.Client().Post("/sign-out", "").Is(204, ""), cleared)
			if !strings.Contains(test.name, "prod") && !strings.Contains(test.name, "domain") {
				check("sign-in", s.Client().Post("/sign-in", "username=alice", servicetest.AsForm), test.attributes)
			}
		})
	}
}

// Lost storage is no refusal: a client that were told "Invalid" would throw its session away.
func TestAuthWithStorageDown(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		expired := "token=" + s.Expired(alice.Session.UserID) + "; refreshToken=" + alice.Session.RefreshToken
		s.Store.Close()
		for _, res := range []*servicetest.Response{
			alice.Get(servicetest.RefreshPath),
			s.Client().Get(servicetest.SessionPath, servicetest.Cookies(expired)),
			s.Client().Get(servicetest.RefreshPath, servicetest.Cookies(expired)),
			alice.Post("/sign-out", ""),
		} {
			res.IsError(http.StatusInternalServerError, "internal").SetsNoCookie()
		}
		servicetest.Is(t, servicetest.Metric(t, s, `worldevents_refreshes_total{outcome="failed"}`), 3, "refreshes failed")
		// What needs no storage goes on.
		alice.Get(servicetest.SessionPath).Is(200, servicetest.Authenticated)
		s.Client().Get(servicetest.RefreshPath).Is(400, servicetest.NoRefresh)
		s.Client().Get(servicetest.RefreshPath, servicetest.Cookies("refreshToken=x")).Is(400, servicetest.InvalidRefresh)
	})
}

// The log says why a refresh token is refused, whose it is where the session is known, and nothing of the token.
func TestRefreshRefusalsAreLogged(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		s.Clock.Freeze(time.Now())
		refused := func(c *servicetest.Client, of server.Session, token, cause string) {
			t.Helper()
			n := len(s.Log.Lines(t, "refresh refused"))
			id := c.Get(servicetest.RefreshPath, servicetest.Cookies("refreshToken="+token)).Is(400, servicetest.InvalidRefresh).Header.Get("X-Request-Id")
			lines := s.Log.Lines(t, "refresh refused")[n:]
			want := map[string]any{"level": "INFO", "msg": "refresh refused", "cause": cause, "client": "127.0.0.1", "request_id": id}
			if of.UserID != "" {
				want["user"], want["session"] = of.UserID, of.SessionID
			}
			for _, line := range lines {
				delete(line, "time")
			}
			servicetest.Is(t, lines, []map[string]any{want}, "%s: lines", cause)
			hash := sha256.Sum256([]byte(token))
			for _, secret := range []string{token, token[:len(token)/2], token[len(token)/2:], hex.EncodeToString(hash[:6])} {
				servicetest.Lacks(t, s.Log.String(), secret)
			}
		}
		alice := s.SignIn("alice")
		spent := alice.Cookie("refreshToken")
		alice.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
		refused(s.Client(), alice.Session, spent, "spent 0 seconds ago")
		s.Clock.Advance(59 * time.Second)
		refused(s.Client(), alice.Session, spent, "spent 59 seconds ago")
		refused(s.Client(), server.Session{}, servicetest.RefreshToken(3), "unknown")
		refused(s.Client(), server.Session{}, "garbage-of-a-client", "unknown")

		current := alice.Cookie("refreshToken")
		again := s.SignIn("alice")
		refused(s.Client(), alice.Session, current, "ended by a newer sign-in")
		current = again.Cookie("refreshToken")
		at := s.Clock.Now().UTC().Format(time.RFC3339)
		servicetest.Must(s.Store.RevokeAll(t.Context()))(t)
		s.Clock.Advance(time.Minute)
		refused(s.Client(), again.Session, current, "revoked at "+at)

		bob := s.SignIn("bob")
		s.Clock.Advance(30*24*time.Hour + time.Second)
		refused(s.Client(), bob.Session, bob.Cookie("refreshToken"), "expired")
		carol, dave := s.SignIn("carol"), s.SignIn("dave")
		n := len(s.Log.String())
		s.Client().Get(servicetest.SessionPath, servicetest.Cookies("token="+s.ExpiredSession(dave.Session)+"; refreshToken="+carol.Cookie("refreshToken"))).
			Is(400, servicetest.SessionInvalidRefresh)
		servicetest.Contains(t, s.Log.String()[n:], `"msg":"refresh refused","cause":"unknown"`)
		servicetest.Lacks(t, s.Log.String()[n:], carol.Session.SessionID)
	})
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

		got, want := s.Log.Lines(t, "security event"), []string{"signed_in", "reused", "signed_in", "signed_out"}
		if len(got) != len(want) {
			t.Fatalf("logged %v", got)
		}
		for i, line := range got {
			if line["event"] != want[i] || line["level"] != "WARN" || len(line["user"].(string)) != 36 || line["client"] != "127.0.0.1" {
				t.Errorf("logged %v, want %v", line, want[i])
			}
			first := got[i/2*2] // of this session
			servicetest.Is(t, fmt.Sprint(line["user"], line["session"]), fmt.Sprint(first["user"], first["session"]), "user and session")
		}
		servicetest.True(t, got[1]["cause"] != nil, "a theft has a cause")
		for event, n := range map[string]float64{"signed_in": 2, "refused": 0, "signed_out": 1, "revoked": 0, "reused": 1} {
			servicetest.Is(t, servicetest.Metric(t, s, fmt.Sprintf(`worldevents_security_events_total{event=%q}`, event)), n, "%s", event)
		}
	})
}
