package sessions

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/publicsuffix"

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
			servicetest.Is(t, s.Client().Get(servicetest.SessionPath, servicetest.Cookies(test.lines...)).Body, test.body, "the session")
			list := s.Client().Get("/api/event/w", servicetest.Cookies(test.lines...))
			servicetest.Is(t, list.Status == 200, test.body == servicetest.Authenticated, "the list: %s", list.Body)
		})
	}

	// The same for refreshToken; the value that lost to another stays unspent.
	r, other := "refreshToken="+alice.RefreshToken, "refreshToken="+servicetest.RefreshToken(1)
	for _, lines := range [][]string{{r + "; " + other}, {other + "; " + r}, {r, other}, {r + "; refreshToken="}, {"refreshToken=; " + r}} {
		s.Client().Get(servicetest.RefreshPath, servicetest.Cookies(lines...)).Is(400, servicetest.InvalidRefresh).SetsNoCookie()
		expired := "token=" + s.Expired(alice.UserID)
		s.Client().Get(servicetest.SessionPath, servicetest.Cookies(append(lines, expired)...)).Is(400, servicetest.SessionInvalidRefresh).SetsNoCookie()
	}
	s.Client().Get(servicetest.RefreshPath, servicetest.Cookies(r+"; "+r)).Is(200, servicetest.Success)
}

// Name and value together may have 4096 bytes.
func TestSessionCookieSize(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t)
	id := s.AddUser("alice")
	sized := func(size int) string {
		for pad := size * 3 / 4; pad > 0; pad-- {
			token := s.JWT(s.Claims(id, time.Hour).And("x", strings.Repeat("x", pad)))
			if len("token")+len(token) == size {
				return token
			}
		}
		t.Fatalf("no JWT makes %d bytes", size)
		return ""
	}
	s.Client().Get(servicetest.SessionPath, servicetest.Cookies("token="+sized(4096))).Is(200, servicetest.Authenticated)
	s.Client().Get(servicetest.SessionPath, servicetest.Cookies("token="+sized(4098))).Is(400, servicetest.SessionInvalid)
}

// jar keeps cookies as a browser does that knows the service by its public address.
type jar struct {
	t *testing.T
	*cookiejar.Jar
}

func newJar(t *testing.T) jar {
	cookies, _ := cookiejar.New(&cookiejar.Options{PublicSuffixList: publicsuffix.List}) // never fails
	return jar{t, cookies}
}

// do sends a request with the jar's cookies, and keeps those of the response.
func (j jar) do(s *servicetest.Service, method, path, body string, with ...servicetest.RequestOption) *servicetest.Response {
	j.t.Helper()
	if sent := j.sent(s, path); len(sent) > 0 {
		with = append(with, servicetest.Cookies(strings.Join(sent, "; ")))
	}
	res := s.Client().Do(method, path, body, with...)
	j.keep(s, res)
	return res
}

func (j jar) keep(s *servicetest.Service, res *servicetest.Response) {
	j.SetCookies(public(s, "/"), (&http.Response{Header: res.Header}).Cookies())
}

// sent returns the cookies that the browser sends to a path of the service, NAME=value each.
func (j jar) sent(s *servicetest.Service, path string) (pairs []string) {
	for _, cookie := range j.Cookies(public(s, path)) {
		pairs = append(pairs, cookie.Name+"="+cookie.Value)
	}
	return pairs
}

// public returns the public address of a path of the service.
func public(s *servicetest.Service, path string) *url.URL {
	u := *s.Options.BaseURL
	u.Path += path
	return &u
}

// seed puts two cookies into the jar that the service s has set.
func (j jar) seed(s *servicetest.Service) {
	j.t.Helper()
	j.keep(s, refreshAt(s, s.SignIn("alice").Session.RefreshToken).Is(200, servicetest.Success))
}

// A change of the configuration leaves cookies in browsers that disagree with the new ones. One sign-in heals this, and
// so does one sign-out.
func TestSignInAndSignOutHealCookies(t *testing.T) {
	t.Parallel()
	at := func(address, domain string) servicetest.Option {
		return func(o *servicetest.Options) {
			o.BaseURL, _ = url.Parse(address)
			o.CookieDomain = domain
		}
	}
	partitioned := func(o *servicetest.Options) { o.CookiePartitioned = true }
	production := []servicetest.Option{servicetest.Production}
	for _, test := range []struct {
		name    string
		always  []servicetest.Option
		configs []servicetest.Option // one after another
	}{
		{"the domain is gone", nil, []servicetest.Option{at("https://api.example.org", "example.org"), at("https://api.example.org", "")}},
		{"the domain is new", nil, []servicetest.Option{at("https://api.example.org", ""), at("https://api.example.org", "example.org")}},
		{"the domain is wider", nil, []servicetest.Option{at("https://a.b.example.org", "b.example.org"), at("https://a.b.example.org", "example.org")}},
		{"the domain is narrower", nil, []servicetest.Option{at("https://a.b.example.org", "example.org"), at("https://a.b.example.org", "a.b.example.org")}},
		{"every domain", nil, []servicetest.Option{
			at("https://a.b.example.co.uk", "example.co.uk"), at("https://a.b.example.co.uk", "b.example.co.uk"), at("https://a.b.example.co.uk", ""),
		}},
		{"a path is new", nil, []servicetest.Option{at("https://example.org", ""), at("https://example.org/app", "")}},
		{"a path is new, on a host without domains", nil, []servicetest.Option{at("http://localhost:8080", ""), at("http://localhost:8080/app", "")}},
		{"a path is gone and back", nil, []servicetest.Option{at("https://example.org/app", ""), at("https://example.org", ""), at("https://example.org/app", "")}},
		{"path and domain are new", nil, []servicetest.Option{at("https://api.example.org", ""), at("https://api.example.org/app", "example.org")}},
		{"path is new, domain is gone", nil, []servicetest.Option{at("https://api.example.org", "example.org"), at("https://api.example.org/app", "")}},
		{"one setting after another", nil, []servicetest.Option{
			at("https://api.example.org", ""), at("https://api.example.org", "example.org"), at("https://api.example.org/app", "example.org"), at("https://api.example.org/app", ""),
		}},
		{"production", production, []servicetest.Option{at("https://api.example.org", "example.org"), at("https://api.example.org/app", "")}},
		{"partitioned", append(production, partitioned), []servicetest.Option{at("https://api.example.org", "example.org"), at("https://api.example.org", "")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			first := servicetest.New(t, append(test.always, test.configs[0])...)
			services := []*servicetest.Service{first}
			for _, config := range test.configs[1:] {
				services = append(services, first.NewInstance(append(test.always, config)...))
			}
			last := services[len(services)-1]
			conflicting := func() jar {
				j := newJar(t)
				for _, s := range services {
					j.seed(s)
				}
				j.do(last, "GET", servicetest.SessionPath, "").Is(400, servicetest.SessionInvalid).SetsNoCookie()
				j.do(last, "GET", servicetest.RefreshPath, "").Is(400, servicetest.InvalidRefresh).SetsNoCookie()
				return j
			}

			j := conflicting()
			checkHealing(t, j.do(last, "POST", "/sign-out", "").Is(204, ""))
			servicetest.Is(t, j.sent(last, "/sign-out"), nil, "cookies after the sign-out")
			if !last.Options.Development {
				return // there is no form
			}
			j = conflicting()
			checkHealing(t, j.do(last, "POST", "/sign-in", "username=alice", servicetest.AsForm).Is(303, ""))
			servicetest.Is(t, len(j.sent(last, servicetest.SessionPath)), 2, "cookies after the sign-in")
			j.do(last, "GET", servicetest.SessionPath, "").Is(200, servicetest.Authenticated)
			res := j.do(last, "GET", servicetest.RefreshPath, "").Is(200, servicetest.Success)
			servicetest.Is(t, len(res.Header["Set-Cookie"]), 2, "cookies that a refresh sets")
			j.do(last, "GET", servicetest.SessionPath, "").Is(200, servicetest.Authenticated)
		})
	}
}

// checkHealing bounds what a response that heals may say.
func checkHealing(t *testing.T, res *servicetest.Response) {
	t.Helper()
	cookies := res.Header["Set-Cookie"]
	n, size := len(cookies), len(strings.Join(cookies, "\n"))
	servicetest.True(t, 2 < n && n <= 16 && size <= 3<<10, "a few cookies: %q", cookies)
	for _, cookie := range cookies {
		_, domain, ok := strings.Cut(cookie, "Domain=")
		domain, _, _ = strings.Cut(domain, ";")
		servicetest.True(t, !ok || strings.Contains(domain, "example."), "the domain is ours: %s", cookie)
	}
}
