package sessions

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"worldevents/server"
	"worldevents/tests/servicetest"
)

func TestSessionIsActiveOrOneOfFourRefusals(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice").Session
		valid, expired := "token="+alice.Token, "token="+s.Expired(alice.UserID)
		current := "refreshToken=" + alice.RefreshToken
		stranger := "refreshToken=" + servicetest.RefreshToken(7)

		for _, test := range []struct {
			name, cookies string
			status        int
			body          string
		}{
			{"no cookie", "", 400, servicetest.SessionNoToken},
			{"another cookie", "theme=dark", 400, servicetest.SessionNoToken},
			{"the name in another case", "Token=" + alice.Token, 400, servicetest.SessionNoToken},
			{"a refresh token alone", current, 400, servicetest.SessionNoToken},
			{"an empty token", "token=", 400, servicetest.SessionNoToken},
			{"not a JWT", "token=abc", 400, servicetest.SessionInvalid},
			{"not a JWT, with a refresh token", "token=abc; " + current, 400, servicetest.SessionInvalid},
			{"a refresh token in place of the JWT", "token=" + alice.RefreshToken, 400, servicetest.SessionInvalid},
			{"quoted", `token="` + alice.Token + `"`, 400, servicetest.SessionInvalid},
			{"valid", valid, 200, servicetest.Authenticated},
			{"valid, with a wrong refresh token", valid + "; " + stranger, 200, servicetest.Authenticated},
			{"expired", expired, 400, servicetest.SessionNoRefresh},
			{"expired, with an empty refresh token", expired + "; refreshToken=", 400, servicetest.SessionNoRefresh},
			{"expired, with an unknown refresh token", expired + "; " + stranger, 400, servicetest.SessionInvalidRefresh},
			{"expired, with a JWT as refresh token", expired + "; refreshToken=" + alice.Token, 400, servicetest.SessionInvalidRefresh},
			{"expired, with the refresh token in upper case", expired + "; refreshToken=" + strings.ToUpper(alice.RefreshToken), 400, servicetest.SessionInvalidRefresh},
			{"expired, with a quoted refresh token", expired + `; refreshToken="` + alice.RefreshToken + `"`, 400, servicetest.SessionInvalidRefresh},
		} {
			s.Run(t, test.name, func(t *testing.T) {
				s.Client().Get(servicetest.SessionPath, servicetest.Cookies(test.cookies)).Is(test.status, test.body).SetsNoCookie()
			})
		}

		// An expired one refreshes by itself, once.
		both := servicetest.Cookies(expired + "; " + current)
		res := s.Client().Get(servicetest.SessionPath, both).Is(200, servicetest.Authenticated)
		if res.Cookie("token").Value == "" || res.Cookie("refreshToken").Value == "" {
			t.Error("the refresh set no cookies")
		}
		s.Client().Get(servicetest.SessionPath, both).Is(400, servicetest.SessionInvalidRefresh).SetsNoCookie()
	})
}

// A JWT lives 15 minutes to the second.
func TestSessionExpiry(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t)
	begin := time.Date(2030, 1, 2, 3, 4, 5, 999_999_999, time.UTC)
	s.Clock.Freeze(begin)
	alice := s.SignIn("alice")
	for _, test := range []struct {
		after time.Duration
		body  string
	}{
		{0, servicetest.Authenticated},
		{15*time.Minute - time.Second, servicetest.Authenticated},
		{15 * time.Minute, servicetest.SessionNoRefresh},
	} {
		s.Run(t, test.after.String(), func(t *testing.T) {
			s.Clock.Freeze(begin.Truncate(time.Second).Add(test.after))
			res := s.Client().Get(servicetest.SessionPath, servicetest.Cookies("token="+alice.Session.Token))
			if res.Body != test.body {
				t.Error(res.Body)
			}
			if res.Status == 200 {
				res.HasHeader("Session-Expires", "2030-01-02T03:19:05.000Z").HasHeader("Session-User", "alice")
			}
		})
	}
}

// Whose refresh token it is decides: with an expired JWT only the one of its subject counts.
func TestSessionLeavesAnotherUsersRefreshToken(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice").Session, s.SignIn("bob").Session
		for _, sub := range []string{alice.UserID, "nobody", servicetest.RefreshToken(0), strings.ToUpper(bob.UserID)} {
			s.Client().Get(servicetest.SessionPath, servicetest.Cookies("token="+s.Expired(sub)+"; refreshToken="+bob.RefreshToken)).
				Is(400, servicetest.SessionInvalidRefresh).SetsNoCookie()
		}
		s.Client().Get(servicetest.SessionPath, servicetest.Cookies("token="+s.Expired(bob.UserID)+"; refreshToken="+bob.RefreshToken)).
			Is(200, servicetest.Authenticated)
	})
}

// A replayed token of another user must not end that user's session either.
func TestSessionReplayOfAnotherUsersTokenRevokesNothing(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		spent := bob.Cookie("refreshToken")
		bob.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
		s.Clock.Advance(2 * time.Minute)
		s.Client().Get(servicetest.SessionPath, servicetest.Cookies("token="+s.Expired(alice.Session.UserID)+"; refreshToken="+spent)).
			Is(400, servicetest.SessionInvalidRefresh).SetsNoCookie()
		bob.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
	})
}

// oldKey verifies what it has signed; strangeKey is nobody's.
var (
	oldKey     = []byte("an older key that still verifies what it signed")
	strangeKey = []byte("a key that this service has never heard of")
)

const hs256 = `{"alg":"HS256"}`

// kid is a header that names a key.
func kid(key []byte) string { return `{"alg":"HS256","kid":"` + servicetest.KeyID(key) + `"}` }

// tokenTest is a JWT, and what the session endpoint says of it.
type tokenTest struct{ name, token, body string }

// newTokens starts a service with an older key, too, and signs alice in. The claims are the least that makes a JWT hers.
func newTokens(t *testing.T) (s *servicetest.Service, alice server.Session, claims servicetest.Claims) {
	t.Helper()
	s = servicetest.New(t, func(o *servicetest.Options) { o.Keys = append(o.Keys, oldKey) })
	alice = s.SignIn("alice").Session
	return s, alice, s.Claims(alice.UserID, time.Hour)
}

// checkTokens has the service judge JWTs. None of those that are wrong may take alice's refresh token with it.
func checkTokens(t *testing.T, s *servicetest.Service, alice server.Session, tests []tokenTest) {
	t.Helper()
	for _, test := range tests {
		s.Run(t, test.name, func(t *testing.T) {
			res := s.Client().Get(servicetest.SessionPath, servicetest.Cookies("token="+test.token))
			if res.Body != test.body {
				t.Errorf("got %s", res.Body)
			}
			if test.body == servicetest.SessionInvalid {
				s.Client().Get(servicetest.SessionPath, servicetest.Cookies("token="+test.token+"; refreshToken="+alice.RefreshToken)).SetsNoCookie()
				if res := s.Client().Get("/api/event/w", servicetest.Cookies("token="+test.token)); res.Status != 401 || res.Error().Code != "invalid_token" {
					t.Errorf("requireAuth: %d %s", res.Status, res.Body)
				}
			}
		})
	}
	s.Client().Get(servicetest.RefreshPath, servicetest.Cookies("refreshToken="+alice.RefreshToken)).Is(200, servicetest.Success)
}

func TestSessionTokens(t *testing.T) {
	t.Parallel()
	s, alice, claims := newTokens(t)
	id, now, text := alice.UserID, s.Clock.Now(), claims.JSON()
	checkTokens(t, s, alice, []tokenTest{
		{"the least there is", servicetest.Sign(servicetest.Key, hs256, text), servicetest.Authenticated},
		{"extra claims and headers", servicetest.Sign(servicetest.Key, `{"alg":"HS256","typ":"at+jwt","jku":"https://evil.example/keys","jwk":{"kty":"oct","k":"AA"},"x5u":"https://evil.example","x5c":["AA"]}`, claims.And("role", "x").JSON()), servicetest.Authenticated},
		{"our kid", servicetest.Sign(servicetest.Key, kid(servicetest.Key), text), servicetest.Authenticated},
		{"the old key's kid", servicetest.Sign(oldKey, kid(oldKey), text), servicetest.Authenticated},
		{"no kid, signed with the old key", servicetest.Sign(oldKey, hs256, text), servicetest.Authenticated},
		{"fractional exp", servicetest.Sign(servicetest.Key, hs256, `{"sub":"`+id+`","exp":4102444800.5}`), servicetest.Authenticated},
		{"iat and nbf in the past", s.JWT(claims.And("iat", now.Unix()-60).And("nbf", now.Unix()-60)), servicetest.Authenticated},
		{"iat and nbf of a clock that is ahead", s.JWT(claims.And("iat", now.Unix()+55).And("nbf", now.Unix()+55)), servicetest.Authenticated},
		{"iss and aud nobody asks for", s.JWT(claims.And("iss", "x").And("aud", "y")), servicetest.Authenticated},
	})
}

func TestSessionTokenHeaders(t *testing.T) {
	t.Parallel()
	s, alice, claims := newTokens(t)
	text := claims.JSON()
	checkTokens(t, s, alice, []tokenTest{
		{"unknown kid", servicetest.Sign(servicetest.Key, `{"alg":"HS256","kid":"0000000000000000"}`, text), servicetest.SessionInvalid},
		{"empty kid", servicetest.Sign(servicetest.Key, `{"alg":"HS256","kid":""}`, text), servicetest.SessionInvalid},
		{"kid null", servicetest.Sign(servicetest.Key, `{"alg":"HS256","kid":null}`, text), servicetest.SessionInvalid},
		{"kid a number", servicetest.Sign(servicetest.Key, `{"alg":"HS256","kid":7}`, text), servicetest.SessionInvalid},
		{"kid a path", servicetest.Sign([]byte{}, `{"alg":"HS256","kid":"../../../../dev/null"}`, text), servicetest.SessionInvalid},
		{"kid of the other key", servicetest.Sign(servicetest.Key, kid(oldKey), text), servicetest.SessionInvalid},
		{"kid in upper case", servicetest.Sign(servicetest.Key, `{"alg":"HS256","kid":"`+strings.ToUpper(servicetest.KeyID(servicetest.Key))+`"}`, text), servicetest.SessionInvalid},
		{"another key", servicetest.Sign(strangeKey, hs256, text), servicetest.SessionInvalid},
		{"the key's id as key", servicetest.Sign([]byte(servicetest.KeyID(servicetest.Key)), hs256, text), servicetest.SessionInvalid},
		{"an empty key", servicetest.Sign([]byte{}, hs256, text), servicetest.SessionInvalid},
		{"crit", servicetest.Sign(servicetest.Key, `{"alg":"HS256","crit":["b64"],"b64":false}`, text), servicetest.SessionInvalid},
		{"crit of exp", servicetest.Sign(servicetest.Key, `{"alg":"HS256","crit":["exp"]}`, text), servicetest.SessionInvalid},
		{"empty crit", servicetest.Sign(servicetest.Key, `{"alg":"HS256","crit":[]}`, text), servicetest.SessionInvalid},
		{"alg none", servicetest.Base64(`{"alg":"none"}`) + "." + servicetest.Base64(text) + ".", servicetest.SessionInvalid},
		{"alg None with our signature", servicetest.Sign(servicetest.Key, `{"alg":"None"}`, text), servicetest.SessionInvalid},
		{"alg in lower case", servicetest.Sign(servicetest.Key, `{"alg":"hs256"}`, text), servicetest.SessionInvalid},
		{"no alg", servicetest.Sign(servicetest.Key, `{}`, text), servicetest.SessionInvalid},
		{"HS384", servicetest.SignWith(servicetest.SHA384, servicetest.Key, `{"alg":"HS384"}`, text), servicetest.SessionInvalid},
		{"HS512", servicetest.SignWith(servicetest.SHA512, servicetest.Key, `{"alg":"HS512"}`, text), servicetest.SessionInvalid},
		{"RS256", servicetest.Sign(servicetest.Key, `{"alg":"RS256"}`, text), servicetest.SessionInvalid},
	})
}

func TestSessionTokenForm(t *testing.T) {
	t.Parallel()
	s, alice, claims := newTokens(t)
	id, text := alice.UserID, claims.JSON()
	good := servicetest.Sign(servicetest.Key, hs256, text)
	parts := strings.Split(good, ".")
	checkTokens(t, s, alice, []tokenTest{
		{"no signature", parts[0] + "." + parts[1] + ".", servicetest.SessionInvalid},
		{"two parts", parts[0] + "." + parts[1], servicetest.SessionInvalid},
		{"four parts", good + ".", servicetest.SessionInvalid},
		{"other claims under the signature", parts[0] + "." + servicetest.Base64(claims.And("sub", "x").JSON()) + "." + parts[2], servicetest.SessionInvalid},
		{"padded base64", good + "=", servicetest.SessionInvalid},
		{"non-canonical base64", servicetest.NonCanonical(good), servicetest.SessionInvalid},
		{"standard base64", parts[0] + "." + parts[1] + "." + standardBase64(parts[2]), servicetest.SessionInvalid},
		{"header is no JSON", servicetest.Sign(servicetest.Key, `alg:HS256`, text), servicetest.SessionInvalid},
		{"claims are no JSON", servicetest.Sign(servicetest.Key, hs256, `sub`), servicetest.SessionInvalid},
		{"claims are an array", servicetest.Sign(servicetest.Key, hs256, `[]`), servicetest.SessionInvalid},
		{"claims are null", servicetest.Sign(servicetest.Key, hs256, `null`), servicetest.SessionInvalid},
		{"claims with something behind", servicetest.Sign(servicetest.Key, hs256, text+"{}"), servicetest.SessionInvalid},
		{"duplicate claim", servicetest.Sign(servicetest.Key, hs256, `{"sub":"x",`+text[1:]), servicetest.SessionInvalid},
		{"wrongly cased exp", servicetest.Sign(servicetest.Key, hs256, `{"sub":"`+id+`","Exp":4102444800}`), servicetest.SessionInvalid},
		{"wrongly cased sub", servicetest.Sign(servicetest.Key, hs256, `{"SUB":"`+id+`","exp":4102444800}`), servicetest.SessionInvalid},
	})
}

func TestSessionTokenClaims(t *testing.T) {
	t.Parallel()
	s, alice, claims := newTokens(t)
	id, now := alice.UserID, s.Clock.Now()
	checkTokens(t, s, alice, []tokenTest{
		{"no sub", s.JWT(claims.Without("sub")), servicetest.SessionInvalid},
		{"empty sub", s.JWT(claims.And("sub", "")), servicetest.SessionInvalid},
		{"sub a number", s.JWT(claims.And("sub", 7)), servicetest.SessionInvalid},
		{"no exp", s.JWT(claims.Without("exp")), servicetest.SessionInvalid},
		{"exp null", s.JWT(claims.And("exp", nil)), servicetest.SessionInvalid},
		{"exp text", s.JWT(claims.And("exp", "4102444800")), servicetest.SessionInvalid},
		{"exp a date", s.JWT(claims.And("exp", "2100-01-01T00:00:00Z")), servicetest.SessionInvalid},
		{"exp beyond the calendar", servicetest.Sign(servicetest.Key, hs256, `{"sub":"`+id+`","exp":1e300}`), servicetest.SessionInvalid},
		{"exp beyond float64", servicetest.Sign(servicetest.Key, hs256, `{"sub":"`+id+`","exp":1e400}`), servicetest.SessionInvalid},
		{"exp before 1970", s.JWT(claims.And("exp", -1)), servicetest.SessionInvalid},
		{"issued in the future", s.JWT(claims.And("iat", now.Unix()+120)), servicetest.SessionInvalid},
		{"not yet valid", s.JWT(claims.And("nbf", now.Unix()+120)), servicetest.SessionInvalid},
		{"username a number", s.JWT(claims.And("username", 7)), servicetest.SessionInvalid},
		{"exp in 10000", s.JWT(claims.And("exp", 253402300800)), servicetest.SessionInvalid},
		{"iat before 1970", s.JWT(claims.And("iat", -0.5)), servicetest.SessionInvalid},
		{"iat after 9999", s.JWT(claims.And("iat", 1e300)), servicetest.SessionInvalid},
		{"iat text", s.JWT(claims.And("iat", "1")), servicetest.SessionInvalid},
		{"nbf before 1970", s.JWT(claims.And("nbf", -1)), servicetest.SessionInvalid},
		{"unknown claim twice", servicetest.Sign(servicetest.Key, hs256, `{"x":1,"x":1,`+claims.JSON()[1:]), servicetest.SessionInvalid},
		{"longer than a cookie may be", s.JWT(claims.And("x", strings.Repeat("x", 4096))), servicetest.SessionInvalid},
	})
}

// What is wrong in any way is Invalid token, even when it has expired as well.
func TestSessionTokensExpired(t *testing.T) {
	t.Parallel()
	s, alice, _ := newTokens(t)
	id, now := alice.UserID, s.Clock.Now()
	stale := s.Claims(id, -time.Hour).JSON()
	checkTokens(t, s, alice, []tokenTest{
		{"expired", s.JWT(s.Claims(id, -time.Hour)), servicetest.SessionNoRefresh},
		{"expired, another key", servicetest.Sign(strangeKey, hs256, stale), servicetest.SessionInvalid},
		{"expired, HS512", servicetest.SignWith(servicetest.SHA512, servicetest.Key, `{"alg":"HS512"}`, stale), servicetest.SessionInvalid},
		{"expired, alg none", servicetest.Base64(`{"alg":"none"}`) + "." + servicetest.Base64(stale) + ".", servicetest.SessionInvalid},
		{"expired, crit", servicetest.Sign(servicetest.Key, `{"alg":"HS256","crit":["x"]}`, stale), servicetest.SessionInvalid},
		{"expired, no sub", s.JWT(s.Claims(id, -time.Hour).Without("sub")), servicetest.SessionInvalid},
		{"expired, not yet valid", s.JWT(s.Claims(id, -time.Hour).And("nbf", now.Unix()+120)), servicetest.SessionInvalid},
		{"expired, issued in the future", s.JWT(s.Claims(id, -time.Hour).And("iat", now.Unix()+120)), servicetest.SessionInvalid},
		{"expired, unknown kid", servicetest.Sign(servicetest.Key, `{"alg":"HS256","kid":"0"}`, stale), servicetest.SessionInvalid},
	})
}

// standardBase64 spells a signature so that it surely differs from base64url: with a plus in front of the same bits.
func standardBase64(signature string) string {
	changed := strings.NewReplacer("-", "+", "_", "/").Replace(signature)
	if changed == signature {
		return "+" + signature[1:]
	}
	return changed
}

func TestSessionIssuerAndAudience(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, func(o *servicetest.Options) { o.Issuer, o.Audience = "https://issuer.example", "worlds" })
	alice := s.SignIn("alice")
	alice.Get(servicetest.SessionPath).Is(200, servicetest.Authenticated) // both are written
	claims := s.Claims(alice.Session.UserID, time.Hour).And("iss", "https://issuer.example").And("aud", "worlds")
	stale := s.Claims(alice.Session.UserID, -time.Hour)
	for _, test := range []struct {
		name   string
		claims servicetest.Claims
		body   string
	}{
		{"both", claims, servicetest.Authenticated},
		{"one audience of several", claims.And("aud", []string{"other", "worlds"}), servicetest.Authenticated},
		{"no issuer", claims.Without("iss"), servicetest.SessionInvalid},
		{"no audience", claims.Without("aud"), servicetest.SessionInvalid},
		{"the issuer with a slash", claims.And("iss", "https://issuer.example/"), servicetest.SessionInvalid},
		{"the audience in another case", claims.And("aud", "Worlds"), servicetest.SessionInvalid},
		{"no audience in the list", claims.And("aud", []string{}), servicetest.SessionInvalid},
		{"expired, neither", stale, servicetest.SessionInvalid},
		{"expired, no audience", stale.And("iss", "https://issuer.example"), servicetest.SessionInvalid},
		{"expired, another audience", stale.And("iss", "https://issuer.example").And("aud", "other"), servicetest.SessionInvalid},
		{"expired, both", stale.And("iss", "https://issuer.example").And("aud", "worlds"), servicetest.SessionNoRefresh},
	} {
		s.Run(t, test.name, func(t *testing.T) {
			if res := s.Client().Get(servicetest.SessionPath, servicetest.Cookies("token="+s.JWT(test.claims))); res.Body != test.body {
				t.Errorf("%s: %s", test.claims.JSON(), res.Body)
			}
		})
	}
}

// The claims that the service writes, and its kid.
func TestSessionJWT(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, func(o *servicetest.Options) { o.Issuer, o.Audience = "i", "a" })
	s.Clock.Freeze(time.Unix(2_000_000_000, 0))
	alice := s.SignIn("alice").Session
	header, claims := servicetest.DecodeJWT(t, alice.Token)
	if want := map[string]any{"alg": "HS256", "typ": "JWT", "kid": servicetest.KeyID(servicetest.Key)}; !servicetest.Equal(header, want) {
		t.Errorf("header %v, want %v", header, want)
	}
	jti, _ := claims["jti"].(string)
	want := map[string]any{"sub": alice.UserID, "sid": alice.SessionID, "username": "alice", "iat": 2e9, "exp": 2e9 + 900, "jti": jti, "iss": "i", "aud": []any{"a"}}
	if jti == "" || !servicetest.Equal(claims, want) {
		t.Errorf("claims %v, want %v", claims, want)
	}
	if _, again := servicetest.DecodeJWT(t, s.SignIn("alice").Session.Token); again["jti"] == jti {
		t.Error("jti repeats")
	}
}

// Rotating keys: a new first key signs, the old one still verifies, then it is gone.
func TestSessionKeyRotation(t *testing.T) {
	t.Parallel()
	next := []byte("the next key, of more than thirty-two bytes")
	before := servicetest.New(t)
	during := before.NewInstance(func(o *servicetest.Options) { o.Keys = [][]byte{next, servicetest.Key} })
	after := before.NewInstance(func(o *servicetest.Options) { o.Keys = [][]byte{next} })

	old := before.SignIn("alice")
	old.On(during).Get(servicetest.SessionPath).Is(200, servicetest.Authenticated)
	old.On(after).Get(servicetest.SessionPath).Is(400, servicetest.SessionInvalid)
	fresh := during.SignIn("alice")
	if header, _ := servicetest.DecodeJWT(t, fresh.Session.Token); header["kid"] != servicetest.KeyID(next) {
		t.Errorf("signed with the old key: %v", header)
	}
	fresh.On(after).Get(servicetest.SessionPath).Is(200, servicetest.Authenticated)
	fresh.On(before).Get(servicetest.SessionPath).Is(400, servicetest.SessionInvalid)
}

func TestSessionUserHeader(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		for _, name := range []string{"alice", "Zoë Müller", "a/b?c=d&e%f+g;h,i", "日本語 😀", "\"quoted\"", " a ", "a:b@c$d"} {
			user := s.SignIn(name)
			for _, path := range []string{servicetest.SessionPath, servicetest.RefreshPath} {
				header := user.Get(path).Header.Get("Session-User")
				if got, err := url.PathUnescape(header); err != nil || got != name || strings.ContainsAny(header, " ,;\"") {
					t.Errorf("%s: %q is %q", path, name, header)
				}
			}
		}
		// A JWT without a username names nobody.
		user := s.SignIn("bob").Session
		s.Client().Get(servicetest.SessionPath, servicetest.Cookies("token="+s.JWT(s.Claims(user.UserID, time.Minute)))).
			Is(200, servicetest.Authenticated).HasHeader("Session-User", "")
	})
}
