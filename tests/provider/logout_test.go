package provider

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

const (
	logoutPath  = "/sign-in/back-channel-logout"
	logoutEvent = "http://schemas.openid.net/event/backchannel-logout"
)

// logoutToken is what the provider sends when somebody signs out there, with changes; nil removes.
func (p *provider) logoutToken(change map[string]any) string {
	now := time.Now()
	claims := map[string]any{
		"iss": p.issuer, "aud": p.clientID, "iat": now.Unix(), "exp": now.Add(2 * time.Minute).Unix(), "jti": "1",
		"events": map[string]any{logoutEvent: map[string]any{}},
	}
	merge(claims, change)
	text, _ := json.Marshal(claims)
	return p.sign(string(text))
}

// logout posts a logout token as the provider does.
func logout(s *servicetest.Service, token string, with ...servicetest.RequestOption) *servicetest.Response {
	return s.Client().Post(logoutPath, url.Values{"logout_token": {token}}.Encode(), append(with, servicetest.AsForm)...)
}

// from is the address that a request comes from, where the proxy on this machine is trusted.
func from(address string) servicetest.RequestOption {
	return servicetest.Header("X-Forwarded-For", address)
}

func trustProxy(o *servicetest.Options) {
	o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
}

// withSession is a person whose ID token names a session of the provider.
func withSession(subject, username string, sid any) person {
	return person{"sub": subject, "preferred_username": username, "sid": sid}
}

// What ends at the provider ends here at once, with its JWT: the session that is named, whenever it began by the clock here, or all of
// the user's that began by the second in which the token was issued. Such a token ends nothing later when it is repeated.
func TestBackChannelLogout(t *testing.T) {
	p := newProvider(t)
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		s.Clock.Freeze(time.Now().Truncate(time.Second).Add(500 * time.Millisecond))
		signIn := func(who person) *servicetest.Client {
			c := s.Client()
			p.signIn(c, who, "").Is(303, "")
			return c
		}
		is := func(c *servicetest.Client, live bool) {
			t.Helper()
			if live {
				c.Get("/api/event/plaza").Has(200)
				return
			}
			c.Get("/api/event/plaza").IsError(401, "invalid_token")
			c.Get("/api/auth/refresh").Is(400, servicetest.InvalidRefresh)
		}
		phone, laptop, tablet := signIn(withSession("1", "alice", "s1")), signIn(withSession("1", "alice", "s2")), signIn(called("1", "alice"))
		bob := signIn(withSession("2", "bob", "s1")) // a provider may number the sessions of each user
		elsewhere := servicetest.Must(s.Store.SignInExternal(t.Context(), "https://other.example.org", "1", "carol",
			models.SignIn{RefreshToken: models.RefreshToken{Handle: models.Hash{1}}, ProviderSID: "s2"}))(t)
		s.Clock.Advance(2 * time.Second)
		later := map[string]any{"iat": s.Clock.Now().Unix()}
		token := func(change map[string]any) string {
			claims := maps.Clone(later)
			maps.Copy(claims, change)
			return p.logoutToken(claims)
		}

		logout(s, token(map[string]any{"sub": "1", "sid": "none"})).Is(200, "").HasHeader("Cache-Control", "no-store")
		logout(s, token(map[string]any{"sub": "9"})).Is(200, "")
		is(phone, true)
		first := token(map[string]any{"sub": "1", "sid": "s1"})
		logout(s, first).Is(200, "").SetsNoCookie()
		is(phone, false)
		is(laptop, true)
		is(bob, true)
		logout(s, token(map[string]any{"sid": "s2"})).Is(200, "")
		is(laptop, false)
		is(tablet, true)

		atOnce := signIn(withSession("1", "alice", "s3")) // in the second of the token
		s.Clock.Advance(2 * time.Second)
		again, slow := signIn(withSession("1", "alice", "s4")), signIn(withSession("1", "alice", "s1"))
		logout(s, token(map[string]any{"sub": "1"})).Is(200, "") // issued before the second sign-in
		is(again, true)
		is(atOnce, false)
		is(tablet, false)
		logout(s, first).Is(200, "") // and the provider's session that began this one had ended
		is(slow, false)
		is(again, true)
		is(bob, true)
		servicetest.Is(t, s.Database.Count("sessions WHERE id = ? AND revoked_at IS NOT NULL", elsewhere.SessionID.String()), 0, "revoked sessions of another provider")
		servicetest.Is(t, strings.Count(s.Log.String(), "ended at the identity provider"), 5, "security events")
		p.checkLog(s)
	}, p.options, func(o *servicetest.Options) { o.Sessions.PerUser = 10 })
}

// A name of a session that no logout token could have is not kept, and nobody is refused for it.
func TestSessionsOfProviderUnnamed(t *testing.T) {
	p := newProvider(t)
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		for _, sid := range []any{"", strings.Repeat("s", 256), "sé", "s\n", 5, nil, []string{"s"}} {
			p.signIn(s.Client(), withSession("1", "alice", sid), "").Is(303, "")
		}
		servicetest.Is(t, s.Database.Count("sessions WHERE provider_sid IS NOT NULL AND provider_sid <> ''"), 0, "sessions have a name")
		longest := strings.Repeat("s", 255)
		p.signIn(s.Client(), withSession("1", "alice", longest), "").Is(303, "")
		servicetest.Is(t, s.Database.Count("sessions WHERE provider_sid = ?", longest), 1, "sessions have the longest name")
	}, p.options)
}

// What is no current logout token of the provider for this service is 400, and ends nothing.
func TestRefusedLogouts(t *testing.T) {
	p, s := start(t)
	alice := s.Client()
	p.signIn(alice, withSession("1", "alice", "s1"), "").Is(303, "")
	now := time.Now().Add(10 * time.Second)
	s.Clock.Freeze(now)
	sub := func(change map[string]any) string {
		claims := map[string]any{"sub": "1", "iat": now.Unix()}
		maps.Copy(claims, change)
		return p.logoutToken(claims)
	}
	other := newProvider(t)
	other.rotate()
	other.issuer, other.clientID = p.issuer, p.clientID
	good := sub(nil)
	head, rest, _ := strings.Cut(good, ".")
	claims, _, _ := strings.Cut(rest, ".")
	for name, token := range map[string]string{
		"none at all":            "",
		"no JWT":                 "x.y.z",
		"another's signature":    other.logoutToken(map[string]any{"sub": "1", "iat": now.Unix()}),
		"no signature":           head + "." + claims + ".",
		"alg none":               servicetest.Base64(`{"alg":"none"}`) + "." + claims + ".",
		"another issuer":         sub(map[string]any{"iss": p.issuer + "/"}),
		"another client":         sub(map[string]any{"aud": "other"}),
		"no audience":            sub(map[string]any{"aud": nil}),
		"expired":                sub(map[string]any{"exp": now.Unix()}),
		"no end":                 sub(map[string]any{"exp": nil}),
		"no beginning":           sub(map[string]any{"iat": nil}),
		"old":                    sub(map[string]any{"iat": now.Unix() - 121}),
		"of the future":          sub(map[string]any{"iat": now.Unix() + 125}),
		"a beginning in words":   sub(map[string]any{"iat": "now"}),
		"no events":              sub(map[string]any{"events": nil}),
		"another event":          sub(map[string]any{"events": map[string]any{"http://example.org": map[string]any{}}}),
		"an event without value": sub(map[string]any{"events": map[string]any{logoutEvent: nil}}),
		"an event that is text":  sub(map[string]any{"events": map[string]any{logoutEvent: "yes"}}),
		"a nonce":                sub(map[string]any{"nonce": "n"}),
		"nobody":                 sub(map[string]any{"sub": nil}),
		"an empty subject":       sub(map[string]any{"sub": ""}),
		"a number for a subject": sub(map[string]any{"sub": 1}),
		"an empty session":       sub(map[string]any{"sid": ""}),
		"a long session":         sub(map[string]any{"sid": strings.Repeat("s", 256)}),
		"Sub beside no sub":      sub(map[string]any{"sub": nil, "Sub": "1"}),
		"AUD behind aud":         p.sign(strings.TrimSuffix(claimsOf(t, sub(map[string]any{"aud": "other"})), "}") + `,"AUD":"` + p.clientID + `"}`),
		"ISS behind iss":         p.sign(strings.TrimSuffix(claimsOf(t, sub(map[string]any{"iss": "other"})), "}") + `,"ISS":"` + p.issuer + `"}`),
	} {
		s.Run(t, name, func(t *testing.T) {
			logout(s, token).IsError(400, "invalid_logout_token").HasHeader("Cache-Control", "no-store")
		})
	}
	alice.Get("/api/event/plaza").Is(200, servicetest.List())
	s.Client().Get(logoutPath+"?logout_token="+good).IsError(405, "method_not_allowed")
	s.Client().Post(logoutPath+"?logout_token="+good, "").IsError(400, "invalid_logout_token")
	logout(s, good, servicetest.Origin("https://evil.example")).IsError(403, "cross_origin")
	alice.Get("/api/event/plaza").Is(200, servicetest.List())
	for _, part := range []string{
		`"msg":"logout token refused","error":"not a logout token: \"`, "without this client", "expired", "has a nonce", "not issued within 2m0s",
	} {
		servicetest.Contains(t, s.Log.String(), part)
	}
	logout(s, good).Is(200, "")
	alice.Get("/api/event/plaza").IsError(401, "invalid_token")
	p.checkLog(s)
	servicetest.New(t).Client().Post(logoutPath, "").IsError(404, "not_found") // without a provider
}

// claimsOf is the JSON in a JWT.
func claimsOf(t *testing.T, token string) string {
	t.Helper()
	return string(servicetest.Must(base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1]))(t))
}

// Tokens of keys that nobody knows have the provider's keys fetched once a second at most, and never those of sign-ins. They keep no token
// of a new key from counting. A token that cannot be judged is 503, for which a provider may send it again.
func TestKeysOfLogouts(t *testing.T) {
	p, s := start(t, trustProxy)
	alice := s.Client()
	p.signIn(alice, called("1", "alice"), "").Is(303, "")
	fetched, begun := p.count("keys"), time.Now()
	stranger := newProvider(t)
	stranger.rotate()
	stranger.issuer, stranger.clientID = p.issuer, p.clientID
	isUnjudged := func(res *servicetest.Response) { res.IsError(503, "overloaded").HasHeader("Retry-After", "1") }
	var wrong atomic.Int64
	servicetest.AtOnce(20, func(int) {
		res := logout(s, stranger.logoutToken(map[string]any{"sub": "1"}), from("192.0.2.1"))
		if res.Status == 400 {
			res.IsError(400, "invalid_logout_token")
			wrong.Add(1)
		} else {
			isUnjudged(res)
		}
	})
	if n := wrong.Load(); n < 1 || n == 20 { // of which an eighth of the places is the address's
		t.Errorf("%d of 20 tokens of one address were judged", n)
	}
	p.rotate()
	logout(s, p.logoutToken(map[string]any{"sub": "9"}), from("192.0.2.2")).Is(200, "")
	logout(s, p.logoutToken(map[string]any{"sub": "1"}), from("192.0.2.1")).Is(200, "")
	alice.Get("/api/event/plaza").IsError(401, "invalid_token")
	if n, most := fetched.Load(), 1+int64(time.Since(begun)/time.Second); n > most {
		t.Errorf("the keys were fetched %d times within %d seconds", n, most)
	}

	p.rotate()
	p.respond("keys", responds(503, ""))
	isUnjudged(logout(s, p.logoutToken(map[string]any{"sub": "9"}), from("192.0.2.2")))
	p.respond("keys", nil)
	servicetest.Eventually(t, "the keys are there again", func() bool {
		return logout(s, p.logoutToken(map[string]any{"sub": "9"}), from("192.0.2.2")).Status == 200
	})
	p.checkLog(s)
}

// While the provider's metadata was never read no token can be judged.
func TestLogoutsBeforeMetadata(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.respond("openid-configuration", responds(500, ""))
	s := servicetest.New(t, p.options)
	logout(s, p.logoutToken(map[string]any{"sub": "1"})).IsError(503, "overloaded").HasHeader("Retry-After", "1")
}

// RATE_LIMIT counts logout tokens that were wrong: the provider may send any number of right ones.
func TestRateOfLogouts(t *testing.T) {
	p, s := start(t, trustProxy, func(o *servicetest.Options) { o.RateLimit = 1e-6 })
	servicetest.AtOnce(40, func(int) {
		if res := logout(s, p.logoutToken(map[string]any{"sub": "9"}), from("192.0.2.2")); res.Status != 200 { // on a slow disk not all have a turn to write
			res.IsError(503, "overloaded")
		}
	})
	logout(s, "x", from("192.0.2.1")).IsError(400, "invalid_logout_token")
	logout(s, p.logoutToken(map[string]any{"sub": "9"}), from("192.0.2.1")).IsError(429, "rate_limited").HasHeader("Retry-After", "1")
	logout(s, p.logoutToken(map[string]any{"sub": "9"}), from("192.0.2.2")).Is(200, "")
}
