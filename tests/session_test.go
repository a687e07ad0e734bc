package tests

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"worldevents/tests/service"
)

const (
	session = "/api/auth/session"
	refresh = "/api/auth/refresh"
)

func TestSessionAnswersActiveOrOneOfFourRefusals(t *testing.T) {
	service.Each(t, func(t *testing.T, s *service.Service) {
		alice := s.SignIn("alice").Session
		valid, expired := "token="+alice.Token, "token="+s.Expired(alice.UserID)
		current := "refreshToken=" + alice.RefreshToken
		stranger := "refreshToken=" + service.RefreshToken(7)

		for _, test := range []struct {
			name, cookies string
			status        int
			body          string
		}{
			{"no cookie", "", 400, service.SessionNoToken},
			{"another cookie", "theme=dark", 400, service.SessionNoToken},
			{"the name in another case", "Token=" + alice.Token, 400, service.SessionNoToken},
			{"a refresh token alone", current, 400, service.SessionNoToken},
			{"an empty token", "token=", 400, service.SessionNoToken},
			{"not a JWT", "token=abc", 400, service.SessionInvalid},
			{"not a JWT, with a refresh token", "token=abc; " + current, 400, service.SessionInvalid},
			{"a refresh token in place of the JWT", "token=" + alice.RefreshToken, 400, service.SessionInvalid},
			{"quoted", `token="` + alice.Token + `"`, 400, service.SessionInvalid},
			{"valid", valid, 200, service.Authenticated},
			{"valid, with a wrong refresh token", valid + "; " + stranger, 200, service.Authenticated},
			{"expired", expired, 400, service.SessionNoRefresh},
			{"expired, with an empty refresh token", expired + "; refreshToken=", 400, service.SessionNoRefresh},
			{"expired, with an unknown refresh token", expired + "; " + stranger, 400, service.SessionInvalidRefresh},
			{"expired, with a JWT as refresh token", expired + "; refreshToken=" + alice.Token, 400, service.SessionInvalidRefresh},
			{"expired, with the refresh token in upper case", expired + "; refreshToken=" + strings.ToUpper(alice.RefreshToken), 400, service.SessionInvalidRefresh},
			{"expired, with a quoted refresh token", expired + `; refreshToken="` + alice.RefreshToken + `"`, 400, service.SessionInvalidRefresh},
			{"expired, refreshes by itself", expired + "; " + current, 200, service.Authenticated},
			{"expired, the refresh token is spent", expired + "; " + current, 400, service.SessionInvalidRefresh},
		} {
			t.Log(test.name)
			res := s.Client().Get(session, service.Cookies(test.cookies)).Is(test.status, test.body)
			if test.name != "expired, refreshes by itself" {
				res.SetsNoCookie()
			} else if res.Cookie("token").Value == "" || res.Cookie("refreshToken").Value == "" {
				t.Error("the refresh set no cookies")
			}
		}
	})
}

func TestSessionRefreshesInTheJar(t *testing.T) {
	service.Each(t, func(t *testing.T, s *service.Service) {
		alice := s.SignIn("alice")
		token, refreshToken := alice.Cookie("token"), alice.Cookie("refreshToken")
		s.Clock.Advance(15*time.Minute + time.Second)
		alice.Get("/api/event/plaza").IsError(401, "token_expired")
		alice.Get(session).Is(200, service.Authenticated)
		if alice.Cookie("token") == token || alice.Cookie("refreshToken") == refreshToken {
			t.Error("the cookies are the old ones")
		}
		alice.Get("/api/event/plaza").Is(200, `{"events":[]}`)
		alice.Get(session).Is(200, service.Authenticated).SetsNoCookie()
	})
}

// A JWT lives 15 minutes to the second.
func TestSessionExpiry(t *testing.T) {
	t.Parallel()
	s := service.New(t)
	begin := time.Date(2030, 1, 2, 3, 4, 5, 999_999_999, time.UTC)
	s.Clock.Freeze(begin)
	alice := s.SignIn("alice")
	for _, test := range []struct {
		after time.Duration
		body  string
	}{
		{0, service.Authenticated},
		{15*time.Minute - time.Second, service.Authenticated},
		{15 * time.Minute, service.SessionNoRefresh},
	} {
		s.Clock.Freeze(begin.Truncate(time.Second).Add(test.after))
		res := s.Client().Get(session, service.Cookies("token="+alice.Session.Token))
		if res.Body != test.body {
			t.Errorf("after %v: %s", test.after, res.Body)
		}
		if res.Status == 200 {
			res.HasHeader("Session-Expires", "2030-01-02T03:19:05.000Z").HasHeader("Session-User", "alice")
		}
	}
}

// Whose refresh token it is decides: with an expired JWT only the one of its subject counts.
func TestSessionLeavesAnotherUsersRefreshToken(t *testing.T) {
	service.Each(t, func(t *testing.T, s *service.Service) {
		alice, bob := s.SignIn("alice").Session, s.SignIn("bob").Session
		for _, sub := range []string{alice.UserID, "nobody", service.RefreshToken(0), strings.ToUpper(bob.UserID)} {
			s.Client().Get(session, service.Cookies("token="+s.Expired(sub)+"; refreshToken="+bob.RefreshToken)).
				Is(400, service.SessionInvalidRefresh).SetsNoCookie()
		}
		s.Client().Get(session, service.Cookies("token="+s.Expired(bob.UserID)+"; refreshToken="+bob.RefreshToken)).
			Is(200, service.Authenticated)
	})
}

// A replayed token of another user must not end that user's session either.
func TestSessionReplayOfAnotherUsersTokenRevokesNothing(t *testing.T) {
	service.Each(t, func(t *testing.T, s *service.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		spent := bob.Cookie("refreshToken")
		bob.Get(refresh).Is(200, service.Success)
		s.Clock.Advance(2 * time.Minute)
		s.Client().Get(session, service.Cookies("token="+s.Expired(alice.Session.UserID)+"; refreshToken="+spent)).
			Is(400, service.SessionInvalidRefresh).SetsNoCookie()
		bob.Get(refresh).Is(200, service.Success)
	})
}

func TestSessionTokens(t *testing.T) {
	t.Parallel()
	old := []byte("an older key that still verifies what it signed")
	s := service.New(t, func(o *service.Options) { o.Keys = append(o.Keys, old) })
	alice := s.SignIn("alice").Session
	id := alice.UserID
	now := s.Clock.Now()
	claims := s.Claims(id, time.Hour)
	text := claims.JSON()
	stale := s.Claims(id, -time.Hour).JSON()
	const hs256 = `{"alg":"HS256"}`
	good := service.Sign(service.Key, hs256, text)
	parts := strings.Split(good, ".")
	kid := func(key []byte) string { return `{"alg":"HS256","kid":"` + service.KeyID(key) + `"}` }
	strange := []byte("a key that this service has never heard of")

	// What is wrong in any way is Invalid token, even when it has expired as well.
	for _, test := range []struct {
		name, token, body string
	}{
		{"the least there is", good, service.Authenticated},
		{"extra claims and headers", service.Sign(service.Key, `{"alg":"HS256","typ":"at+jwt","jku":"https://evil.example/keys","jwk":{"kty":"oct","k":"AA"},"x5u":"https://evil.example","x5c":["AA"]}`, claims.And("role", "x").JSON()), service.Authenticated},
		{"our kid", service.Sign(service.Key, kid(service.Key), text), service.Authenticated},
		{"the old key's kid", service.Sign(old, kid(old), text), service.Authenticated},
		{"no kid, signed with the old key", service.Sign(old, hs256, text), service.Authenticated},
		{"fractional exp", service.Sign(service.Key, hs256, `{"sub":"`+id+`","exp":4102444800.5}`), service.Authenticated},
		{"iat and nbf in the past", s.JWT(claims.And("iat", now.Unix()-60).And("nbf", now.Unix()-60)), service.Authenticated},
		{"iss and aud nobody asks for", s.JWT(claims.And("iss", "x").And("aud", "y")), service.Authenticated},
		{"expired", s.JWT(s.Claims(id, -time.Hour)), service.SessionNoRefresh},

		{"unknown kid", service.Sign(service.Key, `{"alg":"HS256","kid":"0000000000000000"}`, text), service.SessionInvalid},
		{"empty kid", service.Sign(service.Key, `{"alg":"HS256","kid":""}`, text), service.SessionInvalid},
		{"kid null", service.Sign(service.Key, `{"alg":"HS256","kid":null}`, text), service.SessionInvalid},
		{"kid a number", service.Sign(service.Key, `{"alg":"HS256","kid":7}`, text), service.SessionInvalid},
		{"kid a path", service.Sign([]byte{}, `{"alg":"HS256","kid":"../../../../dev/null"}`, text), service.SessionInvalid},
		{"kid of the other key", service.Sign(service.Key, kid(old), text), service.SessionInvalid},
		{"kid in upper case", service.Sign(service.Key, `{"alg":"HS256","kid":"`+strings.ToUpper(service.KeyID(service.Key))+`"}`, text), service.SessionInvalid},
		{"another key", service.Sign(strange, hs256, text), service.SessionInvalid},
		{"the key's id as key", service.Sign([]byte(service.KeyID(service.Key)), hs256, text), service.SessionInvalid},
		{"an empty key", service.Sign([]byte{}, hs256, text), service.SessionInvalid},
		{"crit", service.Sign(service.Key, `{"alg":"HS256","crit":["b64"],"b64":false}`, text), service.SessionInvalid},
		{"crit of exp", service.Sign(service.Key, `{"alg":"HS256","crit":["exp"]}`, text), service.SessionInvalid},
		{"empty crit", service.Sign(service.Key, `{"alg":"HS256","crit":[]}`, text), service.SessionInvalid},
		{"alg none", service.Base64(`{"alg":"none"}`) + "." + parts[1] + ".", service.SessionInvalid},
		{"alg None with our signature", service.Sign(service.Key, `{"alg":"None"}`, text), service.SessionInvalid},
		{"alg in lower case", service.Sign(service.Key, `{"alg":"hs256"}`, text), service.SessionInvalid},
		{"no alg", service.Sign(service.Key, `{}`, text), service.SessionInvalid},
		{"HS384", service.SignWith(service.SHA384, service.Key, `{"alg":"HS384"}`, text), service.SessionInvalid},
		{"HS512", service.SignWith(service.SHA512, service.Key, `{"alg":"HS512"}`, text), service.SessionInvalid},
		{"RS256", service.Sign(service.Key, `{"alg":"RS256"}`, text), service.SessionInvalid},
		{"no signature", parts[0] + "." + parts[1] + ".", service.SessionInvalid},
		{"two parts", parts[0] + "." + parts[1], service.SessionInvalid},
		{"four parts", good + ".", service.SessionInvalid},
		{"other claims under the signature", parts[0] + "." + service.Base64(claims.And("sub", "x").JSON()) + "." + parts[2], service.SessionInvalid},
		{"padded base64", good + "=", service.SessionInvalid},
		{"non-canonical base64", nonCanonical(good), service.SessionInvalid},
		{"standard base64", parts[0] + "." + parts[1] + "." + standardBase64(parts[2]), service.SessionInvalid},
		{"header is no JSON", service.Sign(service.Key, `alg:HS256`, text), service.SessionInvalid},
		{"claims are no JSON", service.Sign(service.Key, hs256, `sub`), service.SessionInvalid},
		{"claims are an array", service.Sign(service.Key, hs256, `[]`), service.SessionInvalid},
		{"claims are null", service.Sign(service.Key, hs256, `null`), service.SessionInvalid},
		{"claims with something behind", service.Sign(service.Key, hs256, text+"{}"), service.SessionInvalid},
		{"duplicate claim", service.Sign(service.Key, hs256, `{"sub":"x",`+text[1:]), service.SessionInvalid},
		{"wrongly cased exp", service.Sign(service.Key, hs256, `{"sub":"`+id+`","Exp":4102444800}`), service.SessionInvalid},
		{"wrongly cased sub", service.Sign(service.Key, hs256, `{"SUB":"`+id+`","exp":4102444800}`), service.SessionInvalid},
		{"no sub", s.JWT(claims.Without("sub")), service.SessionInvalid},
		{"empty sub", s.JWT(claims.And("sub", "")), service.SessionInvalid},
		{"sub a number", s.JWT(claims.And("sub", 7)), service.SessionInvalid},
		{"no exp", s.JWT(claims.Without("exp")), service.SessionInvalid},
		{"exp null", s.JWT(claims.And("exp", nil)), service.SessionInvalid},
		{"exp text", s.JWT(claims.And("exp", "4102444800")), service.SessionInvalid},
		{"exp a date", s.JWT(claims.And("exp", "2100-01-01T00:00:00Z")), service.SessionInvalid},
		{"exp beyond the calendar", service.Sign(service.Key, hs256, `{"sub":"`+id+`","exp":1e300}`), service.SessionInvalid},
		{"exp beyond float64", service.Sign(service.Key, hs256, `{"sub":"`+id+`","exp":1e400}`), service.SessionInvalid},
		{"exp before 1970", s.JWT(claims.And("exp", -1)), service.SessionInvalid},
		{"issued in the future", s.JWT(claims.And("iat", now.Unix()+120)), service.SessionInvalid},
		{"not yet valid", s.JWT(claims.And("nbf", now.Unix()+120)), service.SessionInvalid},
		{"username a number", s.JWT(claims.And("username", 7)), service.SessionInvalid},
		{"longer than a cookie may be", s.JWT(claims.And("x", strings.Repeat("x", 4096))), service.SessionInvalid},
		{"expired, another key", service.Sign(strange, hs256, stale), service.SessionInvalid},
		{"expired, HS512", service.SignWith(service.SHA512, service.Key, `{"alg":"HS512"}`, stale), service.SessionInvalid},
		{"expired, alg none", service.Base64(`{"alg":"none"}`) + "." + service.Base64(stale) + ".", service.SessionInvalid},
		{"expired, crit", service.Sign(service.Key, `{"alg":"HS256","crit":["x"]}`, stale), service.SessionInvalid},
		{"expired, no sub", s.JWT(s.Claims(id, -time.Hour).Without("sub")), service.SessionInvalid},
		{"expired, not yet valid", s.JWT(s.Claims(id, -time.Hour).And("nbf", now.Unix()+120)), service.SessionInvalid},
		{"expired, issued in the future", s.JWT(s.Claims(id, -time.Hour).And("iat", now.Unix()+120)), service.SessionInvalid},
		{"expired, unknown kid", service.Sign(service.Key, `{"alg":"HS256","kid":"0"}`, stale), service.SessionInvalid},
	} {
		res := s.Client().Get(session, service.Cookies("token="+test.token))
		if res.Body != test.body {
			t.Errorf("%s: got %s", test.name, res.Body)
		}
		// Nor may any of them take the refresh token with it.
		if test.body == service.SessionInvalid {
			s.Client().Get(session, service.Cookies("token="+test.token+"; refreshToken="+alice.RefreshToken)).SetsNoCookie()
			if res := s.Client().Get("/api/event/w", service.Cookies("token="+test.token)); res.Status != 401 || res.Error().Code != "invalid_token" {
				t.Errorf("%s: requireAuth: %d %s", test.name, res.Status, res.Body)
			}
		}
	}
	s.Client().Get(refresh, service.Cookies("refreshToken="+alice.RefreshToken)).Is(200, service.Success)
}

// nonCanonical changes the bits of the last character that decode to nothing.
func nonCanonical(token string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, token[len(token)-1])
	return token[:len(token)-1] + string(alphabet[last^1])
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
	s := service.New(t, func(o *service.Options) { o.Issuer, o.Audience = "https://issuer.example", "worlds" })
	alice := s.SignIn("alice")
	alice.Get(session).Is(200, service.Authenticated) // both are written
	claims := s.Claims(alice.Session.UserID, time.Hour).And("iss", "https://issuer.example").And("aud", "worlds")
	stale := s.Claims(alice.Session.UserID, -time.Hour)
	for _, test := range []struct {
		claims service.Claims
		body   string
	}{
		{claims, service.Authenticated},
		{claims.And("aud", []string{"other", "worlds"}), service.Authenticated},
		{claims.Without("iss"), service.SessionInvalid},
		{claims.Without("aud"), service.SessionInvalid},
		{claims.And("iss", "https://issuer.example/"), service.SessionInvalid},
		{claims.And("aud", "Worlds"), service.SessionInvalid},
		{claims.And("aud", []string{}), service.SessionInvalid},
		{stale, service.SessionInvalid},
		{stale.And("iss", "https://issuer.example"), service.SessionInvalid},
		{stale.And("iss", "https://issuer.example").And("aud", "other"), service.SessionInvalid},
		{stale.And("iss", "https://issuer.example").And("aud", "worlds"), service.SessionNoRefresh},
	} {
		if res := s.Client().Get(session, service.Cookies("token="+s.JWT(test.claims))); res.Body != test.body {
			t.Errorf("%s: %s", test.claims.JSON(), res.Body)
		}
	}
}

// The claims that the service writes, and its kid.
func TestSessionJWT(t *testing.T) {
	t.Parallel()
	s := service.New(t, func(o *service.Options) { o.Issuer, o.Audience = "i", "a" })
	s.Clock.Freeze(time.Unix(2_000_000_000, 0))
	alice := s.SignIn("alice").Session
	header, claims := decode(t, alice.Token)
	if want := map[string]any{"alg": "HS256", "typ": "JWT", "kid": service.KeyID(service.Key)}; !equal(header, want) {
		t.Errorf("header %v, want %v", header, want)
	}
	jti, _ := claims["jti"].(string)
	want := map[string]any{"sub": alice.UserID, "username": "alice", "iat": 2e9, "exp": 2e9 + 900, "jti": jti, "iss": "i", "aud": []any{"a"}}
	if jti == "" || !equal(claims, want) {
		t.Errorf("claims %v, want %v", claims, want)
	}
	if _, again := decode(t, s.SignIn("alice").Session.Token); again["jti"] == jti {
		t.Error("jti repeats")
	}
}

// Rotating keys: a new first key signs, the old one still verifies, then it is gone.
func TestSessionKeyRotation(t *testing.T) {
	t.Parallel()
	next := []byte("the next key, of more than thirty-two bytes")
	before := service.New(t)
	during := before.Another(func(o *service.Options) { o.Keys = [][]byte{next, service.Key} })
	after := before.Another(func(o *service.Options) { o.Keys = [][]byte{next} })

	old := before.SignIn("alice")
	old.On(during).Get(session).Is(200, service.Authenticated)
	old.On(after).Get(session).Is(400, service.SessionInvalid)
	fresh := during.SignIn("alice")
	if header, _ := decode(t, fresh.Session.Token); header["kid"] != service.KeyID(next) {
		t.Errorf("signed with the old key: %v", header)
	}
	fresh.On(after).Get(session).Is(200, service.Authenticated)
	fresh.On(before).Get(session).Is(400, service.SessionInvalid)
}

func TestSessionUserHeader(t *testing.T) {
	service.Each(t, func(t *testing.T, s *service.Service) {
		for _, name := range []string{"alice", "Zoë Müller", "a/b?c=d&e%f+g;h,i", "日本語 😀", "\"quoted\"", " a ", "a:b@c$d"} {
			user := s.SignIn(name)
			for _, path := range []string{session, refresh} {
				header := user.Get(path).Header.Get("Session-User")
				if got, err := url.PathUnescape(header); err != nil || got != name || strings.ContainsAny(header, " ,;\"") {
					t.Errorf("%s: %q is %q", path, name, header)
				}
			}
		}
		// A JWT without a username names nobody.
		user := s.SignIn("bob").Session
		s.Client().Get(session, service.Cookies("token="+s.JWT(s.Claims(user.UserID, time.Minute)))).
			Is(200, service.Authenticated).HasHeader("Session-User", "")
	})
}

func TestSessionCookieLines(t *testing.T) {
	t.Parallel()
	s := service.New(t)
	alice, bob := s.SignIn("alice").Session, s.SignIn("bob").Session
	a, b := "token="+alice.Token, "token="+bob.Token
	for _, test := range []struct {
		name  string
		lines []string
		body  string
	}{
		{"the same twice", []string{a + "; " + a}, service.Authenticated},
		{"the same in two lines", []string{a, a}, service.Authenticated},
		{"among others", []string{"x=1; " + a + ";y=2"}, service.Authenticated},
		{"in the second line", []string{"x=1", a}, service.Authenticated},
		{"without spaces", []string{"x=1;" + a + ";y=2"}, service.Authenticated},
		{"behind a cookie without =", []string{"odd; " + a}, service.Authenticated},
		{"behind a cookie with odd characters", []string{`x="a b,c"; y={"z":1}; ` + a}, service.Authenticated},
		{"two values", []string{a + "; " + b}, service.SessionInvalid},
		{"two values, the other order", []string{b + "; " + a}, service.SessionInvalid},
		{"two values in two lines", []string{a, b}, service.SessionInvalid},
		{"two of three differ", []string{a + "; " + a + "; " + b}, service.SessionInvalid},
		{"empty, then a value", []string{"token=; " + a}, service.SessionInvalid},
		{"a value, then empty", []string{a + "; token="}, service.SessionInvalid},
		{"valid and garbage", []string{a + "; token=x"}, service.SessionInvalid},
	} {
		if res := s.Client().Get(session, service.Cookies(test.lines...)); res.Body != test.body {
			t.Errorf("%s: %s", test.name, res.Body)
		}
		if res := s.Client().Get("/api/event/w", service.Cookies(test.lines...)); (res.Status == 200) != (test.body == service.Authenticated) {
			t.Errorf("%s: requireAuth: %d %s", test.name, res.Status, res.Body)
		}
	}

	// The same for refreshToken; the value that lost to another stays unspent.
	r, other := "refreshToken="+alice.RefreshToken, "refreshToken="+service.RefreshToken(1)
	for _, lines := range [][]string{{r + "; " + other}, {other + "; " + r}, {r, other}, {r + "; refreshToken="}, {"refreshToken=; " + r}} {
		s.Client().Get(refresh, service.Cookies(lines...)).Is(400, service.InvalidRefresh).SetsNoCookie()
		expired := "token=" + s.Expired(alice.UserID)
		s.Client().Get(session, service.Cookies(append(lines, expired)...)).Is(400, service.SessionInvalidRefresh).SetsNoCookie()
	}
	s.Client().Get(refresh, service.Cookies(r+"; "+r)).Is(200, service.Success)
}

// Name and value together may have 4096 bytes.
func TestSessionCookieSize(t *testing.T) {
	t.Parallel()
	s := service.New(t)
	id := s.AddUser("alice")
	sized := func(size int) string {
		for pad := size * 3 / 4; ; pad-- {
			token := s.JWT(s.Claims(id, time.Hour).And("x", strings.Repeat("x", pad)))
			if len("token")+len(token) == size {
				return token
			}
			if len(token) < size-16 {
				t.Fatalf("no JWT makes %d bytes", size)
			}
		}
	}
	s.Client().Get(session, service.Cookies("token="+sized(4096))).Is(200, service.Authenticated)
	s.Client().Get(session, service.Cookies("token="+sized(4098))).Is(400, service.SessionInvalid)
}
