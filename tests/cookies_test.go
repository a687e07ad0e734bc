package tests

import (
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

func TestSessionCookieLines(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t)
	alice, bob := s.SignIn("alice").Session, s.SignIn("bob").Session
	a, b := "token="+alice.Token, "token="+bob.Token
	for _, test := range []struct {
		name  string
		lines []string
		body  string
	}{
		{"the same twice", []string{a + "; " + a}, servicetest.Authenticated},
		{"the same in two lines", []string{a, a}, servicetest.Authenticated},
		{"among others", []string{"x=1; " + a + ";y=2"}, servicetest.Authenticated},
		{"in the second line", []string{"x=1", a}, servicetest.Authenticated},
		{"without spaces", []string{"x=1;" + a + ";y=2"}, servicetest.Authenticated},
		{"behind a cookie without =", []string{"odd; " + a}, servicetest.Authenticated},
		{"behind a cookie with odd characters", []string{`x="a b,c"; y={"z":1}; ` + a}, servicetest.Authenticated},
		{"two values", []string{a + "; " + b}, servicetest.SessionInvalid},
		{"two values, the other order", []string{b + "; " + a}, servicetest.SessionInvalid},
		{"two values in two lines", []string{a, b}, servicetest.SessionInvalid},
		{"two of three differ", []string{a + "; " + a + "; " + b}, servicetest.SessionInvalid},
		{"empty, then a value", []string{"token=; " + a}, servicetest.SessionInvalid},
		{"a value, then empty", []string{a + "; token="}, servicetest.SessionInvalid},
		{"valid and garbage", []string{a + "; token=x"}, servicetest.SessionInvalid},
	} {
		s.Run(t, test.name, func(t *testing.T) {
			if res := s.Client().Get(session, servicetest.Cookies(test.lines...)); res.Body != test.body {
				t.Error(res.Body)
			}
			if res := s.Client().Get("/api/event/w", servicetest.Cookies(test.lines...)); (res.Status == 200) != (test.body == servicetest.Authenticated) {
				t.Errorf("requireAuth: %d %s", res.Status, res.Body)
			}
		})
	}

	// The same for refreshToken; the value that lost to another stays unspent.
	r, other := "refreshToken="+alice.RefreshToken, "refreshToken="+servicetest.RefreshToken(1)
	for _, lines := range [][]string{{r + "; " + other}, {other + "; " + r}, {r, other}, {r + "; refreshToken="}, {"refreshToken=; " + r}} {
		s.Client().Get(refresh, servicetest.Cookies(lines...)).Is(400, servicetest.InvalidRefresh).SetsNoCookie()
		expired := "token=" + s.Expired(alice.UserID)
		s.Client().Get(session, servicetest.Cookies(append(lines, expired)...)).Is(400, servicetest.SessionInvalidRefresh).SetsNoCookie()
	}
	s.Client().Get(refresh, servicetest.Cookies(r+"; "+r)).Is(200, servicetest.Success)
}

// Name and value together may have 4096 bytes.
func TestSessionCookieSize(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t)
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
	s.Client().Get(session, servicetest.Cookies("token="+sized(4096))).Is(200, servicetest.Authenticated)
	s.Client().Get(session, servicetest.Cookies("token="+sized(4098))).Is(400, servicetest.SessionInvalid)
}
