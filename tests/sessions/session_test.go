package sessions

import (
	"net/url"
	"strings"
	"testing"
	"time"

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
		servicetest.True(t, res.Cookie("token").Value != "" && res.Cookie("refreshToken").Value != "", "a refresh sets both cookies")
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
	after := func(d time.Duration) *servicetest.Response {
		s.Clock.Freeze(begin.Truncate(time.Second).Add(d))
		return s.Client().Get(servicetest.SessionPath, servicetest.Cookies("token="+alice.Session.Token))
	}
	for _, d := range []time.Duration{0, 15*time.Minute - time.Second} {
		after(d).Is(200, servicetest.Authenticated).HasHeader("Session-Expires", "2030-01-02T03:19:05.000Z").HasHeader("Session-User", "alice")
	}
	after(15*time.Minute).Is(400, servicetest.SessionNoRefresh)
}

// Whose refresh token it is decides: with an expired JWT only the one of its subject counts, and a spent one of another user ends nothing.
func TestSessionReplayOfAnotherUsersTokenRevokesNothing(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		ask := func(sub, refreshToken string) *servicetest.Response {
			return s.Client().Get(servicetest.SessionPath, servicetest.Cookies("token="+s.Expired(sub)+"; refreshToken="+refreshToken))
		}
		spent := bob.Cookie("refreshToken")
		for _, sub := range []string{alice.Session.UserID, "nobody", servicetest.RefreshToken(0), strings.ToUpper(bob.Session.UserID)} {
			ask(sub, spent).Is(400, servicetest.SessionInvalidRefresh).SetsNoCookie()
		}
		bob.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
		s.Clock.Advance(2 * time.Minute)
		ask(alice.Session.UserID, spent).Is(400, servicetest.SessionInvalidRefresh).SetsNoCookie()
		ask(bob.Session.UserID, bob.Cookie("refreshToken")).Is(200, servicetest.Authenticated)
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

// A JWT is the session's only if it is right in every way. What is wrong in any is Invalid token, also when it has expired, and takes no
// refresh token with it.
func TestSessionTokens(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, func(o *servicetest.Options) { o.Keys = append(o.Keys, oldKey) })
	alice := s.SignIn("alice").Session
	id, now := alice.UserID, s.Clock.Now()
	claims, expired := s.Claims(id, time.Hour), s.Claims(id, -time.Hour) // the least that makes a JWT hers
	text, stale := claims.JSON(), expired.JSON()
	sign := func(header, claims string) string { return servicetest.Sign(servicetest.Key, header, claims) }
	good := sign(hs256, text)
	parts := strings.Split(good, ".")
	for name, token := range map[string]string{
		"the least there is":                   good,
		"extra claims":                         s.JWT(claims.And("role", "x")),
		"extra headers":                        sign(`{"alg":"HS256","typ":"at+jwt","jku":"https://evil.example/keys","jwk":{"kty":"oct","k":"AA"},"x5u":"https://evil.example"}`, text),
		"our kid":                              sign(kid(servicetest.Key), text),
		"the old key's kid":                    servicetest.Sign(oldKey, kid(oldKey), text),
		"no kid, signed with the old key":      servicetest.Sign(oldKey, hs256, text),
		"fractional exp":                       sign(hs256, `{"sub":"`+id+`","exp":4102444800.5}`),
		"iat and nbf in the past":              s.JWT(claims.And("iat", now.Unix()-60).And("nbf", now.Unix()-60)),
		"iat and nbf of a clock that is ahead": s.JWT(claims.And("iat", now.Unix()+55).And("nbf", now.Unix()+55)),
		"iss and aud nobody asks for":          s.JWT(claims.And("iss", "x").And("aud", "y")),
	} {
		s.Run(t, name, func(t *testing.T) {
			s.Client().Get(servicetest.SessionPath, servicetest.Cookies("token="+token)).Is(200, servicetest.Authenticated)
		})
	}
	for name, token := range map[string]string{
		"unknown kid":                      sign(`{"alg":"HS256","kid":"0000000000000000"}`, text),
		"empty kid":                        sign(`{"alg":"HS256","kid":""}`, text),
		"kid null":                         sign(`{"alg":"HS256","kid":null}`, text),
		"kid a number":                     sign(`{"alg":"HS256","kid":7}`, text),
		"kid a path":                       servicetest.Sign(nil, `{"alg":"HS256","kid":"../../../../dev/null"}`, text),
		"kid of the other key":             sign(kid(oldKey), text),
		"kid in upper case":                sign(`{"alg":"HS256","kid":"`+strings.ToUpper(servicetest.KeyID(servicetest.Key))+`"}`, text),
		"another key":                      servicetest.Sign(strangeKey, hs256, text),
		"the key's id as key":              servicetest.Sign([]byte(servicetest.KeyID(servicetest.Key)), hs256, text),
		"an empty key":                     servicetest.Sign(nil, hs256, text),
		"crit":                             sign(`{"alg":"HS256","crit":["b64"],"b64":false}`, text),
		"crit of exp":                      sign(`{"alg":"HS256","crit":["exp"]}`, text),
		"empty crit":                       sign(`{"alg":"HS256","crit":[]}`, text),
		"alg none":                         servicetest.Base64(`{"alg":"none"}`) + "." + servicetest.Base64(text) + ".",
		"alg None with our signature":      sign(`{"alg":"None"}`, text),
		"alg in lower case":                sign(`{"alg":"hs256"}`, text),
		"no alg":                           sign(`{}`, text),
		"HS512":                            servicetest.SignWith(servicetest.SHA512, servicetest.Key, `{"alg":"HS512"}`, text),
		"RS256":                            sign(`{"alg":"RS256"}`, text),
		"no signature":                     parts[0] + "." + parts[1] + ".",
		"two parts":                        parts[0] + "." + parts[1],
		"four parts":                       good + ".",
		"other claims under the signature": parts[0] + "." + servicetest.Base64(claims.And("sub", "x").JSON()) + "." + parts[2],
		"padded base64":                    good + "=",
		"non-canonical base64":             servicetest.NonCanonical(good),
		"standard base64":                  parts[0] + "." + parts[1] + "." + standardBase64(parts[2]),
		"header is no JSON":                sign(`alg:HS256`, text),
		"claims are no JSON":               sign(hs256, `sub`),
		"claims are an array":              sign(hs256, `[]`),
		"claims are null":                  sign(hs256, `null`),
		"claims with something behind":     sign(hs256, text+"{}"),
		"duplicate claim":                  sign(hs256, `{"sub":"x",`+text[1:]),
		"wrongly cased exp":                sign(hs256, `{"sub":"`+id+`","Exp":4102444800}`),
		"wrongly cased sub":                sign(hs256, `{"SUB":"`+id+`","exp":4102444800}`),
		"no sub":                           s.JWT(claims.Without("sub")),
		"empty sub":                        s.JWT(claims.And("sub", "")),
		"sub a number":                     s.JWT(claims.And("sub", 7)),
		"no exp":                           s.JWT(claims.Without("exp")),
		"exp null":                         s.JWT(claims.And("exp", nil)),
		"exp text":                         s.JWT(claims.And("exp", "4102444800")),
		"exp a date":                       s.JWT(claims.And("exp", "2100-01-01T00:00:00Z")),
		"exp beyond the calendar":          sign(hs256, `{"sub":"`+id+`","exp":1e300}`),
		"exp beyond float64":               sign(hs256, `{"sub":"`+id+`","exp":1e400}`),
		"exp before 1970":                  s.JWT(claims.And("exp", -1)),
		"issued in the future":             s.JWT(claims.And("iat", now.Unix()+120)),
		"not yet valid":                    s.JWT(claims.And("nbf", now.Unix()+120)),
		"username a number":                s.JWT(claims.And("username", 7)),
		"exp in 10000":                     s.JWT(claims.And("exp", 253402300800)),
		"iat before 1970":                  s.JWT(claims.And("iat", -0.5)),
		"iat after 9999":                   s.JWT(claims.And("iat", 1e300)),
		"iat text":                         s.JWT(claims.And("iat", "1")),
		"nbf before 1970":                  s.JWT(claims.And("nbf", -1)),
		"unknown claim twice":              sign(hs256, `{"x":1,"x":1,`+claims.JSON()[1:]),
		"longer than a cookie may be":      s.JWT(claims.And("x", strings.Repeat("x", 4096))),
		"expired, another key":             servicetest.Sign(strangeKey, hs256, stale),
		"expired, HS512":                   servicetest.SignWith(servicetest.SHA512, servicetest.Key, `{"alg":"HS512"}`, stale),
		"expired, alg none":                servicetest.Base64(`{"alg":"none"}`) + "." + servicetest.Base64(stale) + ".",
		"expired, crit":                    sign(`{"alg":"HS256","crit":["x"]}`, stale),
		"expired, no sub":                  s.JWT(expired.Without("sub")),
		"expired, not yet valid":           s.JWT(expired.And("nbf", now.Unix()+120)),
		"expired, issued in the future":    s.JWT(expired.And("iat", now.Unix()+120)),
		"expired, unknown kid":             sign(`{"alg":"HS256","kid":"0"}`, stale),
	} {
		s.Run(t, name, func(t *testing.T) {
			s.Client().Get(servicetest.SessionPath, servicetest.Cookies("token="+token)).Is(400, servicetest.SessionInvalid)
			s.Client().Get(servicetest.SessionPath, servicetest.Cookies("token="+token+"; refreshToken="+alice.RefreshToken)).
				Is(400, servicetest.SessionInvalid).SetsNoCookie()
			s.Client().Get("/api/event/w", servicetest.Cookies("token="+token)).IsError(401, "invalid_token")
		})
	}
	refreshAt(s, alice.RefreshToken).Is(200, servicetest.Success)
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
		res := s.Client().Get(servicetest.SessionPath, servicetest.Cookies("token="+s.JWT(test.claims)))
		servicetest.Is(t, res.Body, test.body, "%s: %s", test.name, test.claims.JSON())
	}
}

// The claims that the service writes, and its kid.
func TestSessionJWT(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, func(o *servicetest.Options) { o.Issuer, o.Audience = "i", "a" })
	s.Clock.Freeze(time.Unix(2_000_000_000, 0))
	alice := s.SignIn("alice").Session
	header, claims := servicetest.DecodeJWT(t, alice.Token)
	servicetest.Is(t, header, map[string]any{"alg": "HS256", "typ": "JWT", "kid": servicetest.KeyID(servicetest.Key)}, "header")
	jti, _ := claims["jti"].(string)
	want := map[string]any{"sub": alice.UserID, "sid": alice.SessionID, "username": "alice", "iat": 2e9, "exp": 2e9 + 900, "jti": jti, "iss": "i", "aud": []any{"a"}}
	servicetest.Is(t, claims, want, "claims")
	_, again := servicetest.DecodeJWT(t, s.SignIn("alice").Session.Token)
	if jti == "" || again["jti"] == jti {
		t.Errorf("jti %q, then %q", jti, again["jti"])
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
	header, _ := servicetest.DecodeJWT(t, fresh.Session.Token)
	servicetest.Is(t, header["kid"], any(servicetest.KeyID(next)), "the key that signs")
	fresh.On(after).Get(servicetest.SessionPath).Is(200, servicetest.Authenticated)
	fresh.On(before).Get(servicetest.SessionPath).Is(400, servicetest.SessionInvalid)
}

func TestSessionUserHeader(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		for _, name := range []string{"alice", "Zoë Müller", "a/b?c=d&e%f+g;h,i", "日本語 😀", "\"quoted\"", " a ", "a:b@c$d"} {
			user := s.SignIn(name)
			for _, path := range []string{servicetest.SessionPath, servicetest.RefreshPath} {
				header := user.Get(path).Header.Get("Session-User")
				servicetest.Is(t, servicetest.Must(url.PathUnescape(header))(t), name, "%s: the name", path)
				servicetest.True(t, !strings.ContainsAny(header, " ,;\""), "%s: nothing is left that ends a header: %s", path, header)
			}
		}
		// A JWT without a username names nobody.
		user := s.SignIn("bob").Session
		s.Client().Get(servicetest.SessionPath, servicetest.Cookies("token="+s.JWT(s.Claims(user.UserID, time.Minute)))).
			Is(200, servicetest.Authenticated).HasHeader("Session-User", "")
	})
}
