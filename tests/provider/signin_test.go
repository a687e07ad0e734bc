// Package signin proves over HTTP how people sign in with an identity provider, on SQLite and on PostgreSQL.
package provider

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

func TestSignIn(t *testing.T) {
	p := newProvider(t)
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		c := s.Client()
		away := c.Get("/sign-in?return_to=/openapi.json").Is(303, "")
		to, _ := url.Parse(away.Header.Get("Location"))
		kept := away.Cookie(nameOf(to))
		servicetest.Is(t, kept.Raw, kept.Name+"="+kept.Value+"; Path=/; Max-Age=3600; HttpOnly; Secure; SameSite=Lax", "cookie of the attempt")
		q := to.Query()
		for name, want := range map[string]string{
			"response_type": "code", "client_id": p.clientID, "scope": "openid profile", "code_challenge_method": "S256",
			"redirect_uri": s.URL + "/sign-in/callback",
		} {
			servicetest.Is(t, q.Get(name), want, "%s", name)
		}
		for _, name := range []string{"state", "nonce", "code_challenge"} {
			servicetest.Is(t, len(q.Get(name)), 43, "length of %s", name)
			servicetest.Lacks(t, kept.Value, q.Get(name))
		}

		back := c.Get(p.consent(to.String(), called("1", "alice")).RequestURI())
		back.Is(303, "").HasHeader("Location", "/openapi.json").HasHeader("Cache-Control", "no-store")
		if gone := back.Cookie(nameOf(to)); gone.Value == kept.Value || !strings.HasSuffix(kept.Value, gone.Value) || gone.MaxAge != 3600 || gone.Path != "/" {
			t.Errorf("cookie of the attempt afterwards: %v", gone)
		}
		for _, name := range []string{"token", "refreshToken"} {
			set := back.Cookie(name)
			servicetest.True(t, set.HttpOnly && set.Secure && set.SameSite == http.SameSiteNoneMode && set.MaxAge == 2592000, "the cookie: %v", set)
		}
		c.Get("/api/auth/session").Is(200, servicetest.Authenticated).HasHeader("Session-User", "alice")
		c.Create("plaza", "Chess night", "2030-01-01T00:00:00Z")

		// On another device: the same user, whose first session ends, and the value that it had before is forgotten.
		before := c.Cookie("refreshToken")
		c.Get("/api/auth/refresh").Is(200, servicetest.Success)
		d := s.Client()
		p.signIn(d, called("1", "renamed"), "").Is(303, "").HasHeader("Location", "/docs")
		d.Get("/api/auth/session").Is(200, servicetest.Authenticated).HasHeader("Session-User", "alice")
		c.Get("/api/auth/refresh").Is(400, servicetest.InvalidRefresh)
		s.Clock.Advance(2 * time.Minute)
		s.Client().Get("/api/auth/refresh", servicetest.Cookies("refreshToken="+before)).Is(400, servicetest.InvalidRefresh)
		d.Get("/api/auth/refresh").Is(200, servicetest.Success) // not revoked
		servicetest.Is(t, s.Database.Count("users"), 1, "users")
		p.checkLog(s)
	}, p.options)
}

func TestUsernames(t *testing.T) {
	p := newProvider(t)
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		s.AddUser("alice") // without the provider: never taken over
		long := strings.Repeat("é", 100)
		for i, test := range []struct {
			name any
			want string // what stands before eight random digits when it ends in a dash
		}{
			{"bob", "bob"},
			{"alice", "alice-2"},
			{"alice", "alice-3"},
			{"bob", "bob-2"},
			{"bob ", "bob-3"},
			{"ＢＯＢ", "BOB-4"},
			{"Вob", "%D0%92ob-5"}, // in Cyrillic
			{"b\u200bob", "user-"},
			{"  carol\u00a0 x ", "carol%20x"},
			{"Alice", "Alice-4"},
			{"Zoë Ω", "Zo%C3%AB%20%CE%A9"},
			{long, url.PathEscape(long)},
			{long, url.PathEscape(long[:180]) + "-2"},
			{nil, "user-"},
			{"", "user-"},
			{"  ", "user-"},
			{"a\nb", "user-"},
			{long + "é", "user-"},
			{42, "user-"},
			{[]string{"carol"}, "user-"},
		} {
			c := s.Client()
			p.signIn(c, person{"sub": fmt.Sprint("s", i), "preferred_username": test.name}, "").Is(303, "")
			isCalled(t, c, test.want)
		}
		for range 7 { // up to alice-9 and beyond
			p.signIn(s.Client(), called(fmt.Sprint("n", time.Now().UnixNano()), "alice"), "").Is(303, "")
		}
		servicetest.Is(t, s.Database.Count("users WHERE lower(username) LIKE 'alice-%' AND length(username) = 7"), 8, "users called alice-2 to alice-9")
		servicetest.Is(t, s.Database.Count("users WHERE username LIKE 'alice-________'"), 2, "users called alice with random digits")
	}, p.options)
}

// TestLookalikes: nobody new is called what looks like the name of somebody who is there, whoever named them. The names
// that an operator chooses stay as they are.
func TestLookalikes(t *testing.T) {
	p := newProvider(t)
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		becomes := func(subject, name, want string) {
			t.Helper()
			c := s.Client()
			p.signIn(c, called(subject, name), "").Is(303, "")
			isCalled(t, c, url.PathEscape(want))
		}
		s.AddUser("Operator ")
		s.AddUser("operator")
		s.SignIn("ｏperator").Get("/api/auth/session").HasHeader("Session-User", url.PathEscape("ｏperator"))
		becomes("1", "operator", "operator-2")
		becomes("2", "Operator", "Operator-3")
		becomes("3", "οperator", "οperator-4") // in Greek
		becomes("4", "0perator", "0perator-5")
		becomes("5", "alice", "alice")
		becomes("6", "аӏісе", "аӏісе-2") // in Cyrillic
		becomes("7", "alice", "alice-3")
		s.AddUser("Alice") // an operator may
		becomes("5", "somebody else", "alice")
		becomes("6", "alice", "аӏісе-2")
		becomes("8", "Вера", "Вера")
		becomes("9", "вера", "вера-2")
		s.Database.Exec("INSERT INTO users (id, username, created_at) VALUES ('01980000-0000-7000-8000-000000000001', 'by hand', '2030-01-01 00:00:00+00:00')")
		becomes("10", "by hand", "by hand-2")
	}, p.options)
}

// TestUsernameFromUserInfo: some providers keep the name out of the ID token.
func TestUsernameFromUserInfo(t *testing.T) {
	p, s := start(t)
	info := func(sub string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			servicetest.True(t, p.person(r) != "", "UserInfo is asked with the access token")
			respondJSON(w, 200, called(sub, "dora"))
		}
	}
	p.respond("userinfo", info("somebody else"))
	c := s.Client()
	p.signIn(c, person{"sub": "2"}, "").Is(303, "")
	isCalled(t, c, "user-")
	p.respond("userinfo", info("1"))
	p.signIn(c, person{"sub": "1"}, "").Is(303, "")
	isCalled(t, c, "dora")
}

// Claims are told apart by case, and what is not needed may be of any type. A name that no JSON text can be is none.
func TestClaimsOfIdentity(t *testing.T) {
	p, s := start(t)
	victim := s.Client()
	p.signIn(victim, called("victim", "victim"), "").Is(303, "")
	now := time.Now()
	for claims, want := range map[string]string{
		`"sub":"a1","Sub":"victim","SUB":"victim","preferred_username":"ada"`:                               "ada",
		`"Sub":"victim","sub":"a2","preferred_username":"bea","Preferred_Username":"x"`:                     "bea",
		`"sub":"a3","preferred_username":"cleo","email":5,"name":{},"x":"\ud800","y":{"a":1,"b":[]}`:        "cleo",
		`"sub":"a4","preferred_username":"\ud800"`:                                                          "user-",
		`"sub":"a5","preferred_username":"dan\udc00"`:                                                       "user-",
		`"sub":"a6","preferred_username":"\ud83d\ude00"`:                                                    "%F0%9F%98%80",
		`"sub":"a7","preferred_username":"eve","Nonce":"x","NONCE":"y","Aud":"other","Azp":"other"`:         "eve",
		`"sub":"a8","preferred_username":"fay","azp":"` + p.clientID + `","aud":["x","` + p.clientID + `"]`: "fay",
	} {
		c := s.Client()
		u := p.consent(begin(c, ""), nil)
		p.respond("token", func(w http.ResponseWriter, r *http.Request) {
			nonce := p.codes[r.PostFormValue("code")].Get("nonce")
			text := fmt.Sprintf(`{"iss":%q,"nonce":%q,"exp":%d,%s`, p.issuer, nonce, now.Add(time.Hour).Unix(), claims)
			if !strings.Contains(claims, `"aud"`) {
				text += fmt.Sprintf(`,"aud":%q`, p.clientID)
			}
			respondTokens(w, "x", p.sign(text+"}"))
		})
		p.respond("userinfo", responds(200, fmt.Sprintf(`{"sub":%q,"Sub":"x","email":5,"email_verified":[]}`, claims[len(`"sub":"`):][:2])))
		c.Get(u.RequestURI()).Is(303, "")
		isCalled(t, c, want)
	}
	servicetest.Is(t, s.Database.Count("sessions WHERE user_id = (SELECT id FROM users WHERE username = 'victim')"), 1, "sessions of the victim")
}

// TestConcurrently lets many browsers sign in for the first time at once, over two instances: as one person, and as people
// whose names look alike.
func TestConcurrently(t *testing.T) {
	p := newProvider(t)
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		s.AddUser("ALICE")
		instances := []*servicetest.Service{s, s.NewInstance(p.options)}
		signIn := func(n int, who func(i int) person) {
			clients, callbacks := make([]*servicetest.Client, n), make([]string, n)
			for i := range n {
				clients[i] = instances[i%2].Client()
				callbacks[i] = p.consent(begin(clients[i], ""), who(i)).RequestURI()
			}
			servicetest.AtOnce(n, func(i int) { clients[i].Get(callbacks[i]).Is(303, "") })
		}
		signIn(12, func(int) person { return called("same", "bob") })
		servicetest.Is(t, s.Database.Count("users WHERE username LIKE 'bob%'"), 1, "users of one subject")
		names := []string{"alice", "Alice ", "ａｌｉｃｅ", "аlice", "a1ice", "alIce", "АLICE", "al\u200bice", "alice\u00a0", "alice-2"}
		const n = 50
		signIn(n, func(i int) person { return called(fmt.Sprint(i), names[i%len(names)]) })
		for _, column := range []string{"username", "folded", "skeleton"} {
			var different int
			s.Database.Read("SELECT count(DISTINCT "+column+") FROM users", nil, &different)
			servicetest.Is(t, different, n+2, "values of %s", column)
		}
		servicetest.Is(t, s.Database.Count("users WHERE username = 'alice'"), 0, "somebody looks like the operator's user")
	}, p.options)
}

func TestReturnTo(t *testing.T) {
	p, s := start(t)
	for returnTo, want := range map[string]string{
		"":                                        "/docs",
		"/docs?x=1#top":                           "/docs?x=1#top",
		"https://app.example.org":                 "https://app.example.org",
		"https://app.example.org/a?b=c#d":         "https://app.example.org/a?b=c#d",
		"http://localhost:5173/":                  "http://localhost:5173/",
		"https://app.example.org?x":               "https://app.example.org?x",
		"https://evil.example":                    "/docs",
		"https://app.example.org.evil.example":    "/docs",
		"https://app.example.org@evil.example":    "/docs",
		"https://app.example.org:443@evil.org/":   "/docs",
		"https://app.example.org:8443/":           "/docs",
		`https://app.example.org\@evil.example`:   "/docs",
		`https://app.example.org/\evil`:           "/docs",
		"https://app.example.org/\x7f":            "/docs",
		"http://app.example.org/":                 "/docs",
		"http://localhost:51730/":                 "/docs",
		"//evil.example":                          "/docs",
		"//app.example.org/":                      "/docs",
		`/\evil.example`:                          "/docs",
		"/\tevil":                                 "/docs",
		"\thttps://app.example.org/":              "/docs",
		"https://app.example.org/\r\nX: y":        "/docs",
		"javascript:alert(1)":                     "/docs",
		"docs":                                    "/docs",
		"/" + strings.Repeat("x", 1999):           "/" + strings.Repeat("x", 1999),
		"/" + strings.Repeat("x", 2000):           "/docs",
		"https:app.example.org/":                  "/docs",
		"https://https://app.example.org/":        "/docs",
		s.URL + "/docs":                           "/docs",
		"data:text/html,https://app.example.org/": "/docs",
	} {
		s.Run(t, fmt.Sprintf("%q", returnTo), func(t *testing.T) {
			c := s.Client()
			u := p.consent(begin(c, returnTo), called("1", "alice"))
			kept, _ := base64.RawURLEncoding.DecodeString(strings.Split(c.Cookie(nameOf(u)), ".")[2])
			servicetest.Is(t, string(kept), want, "where the attempt leads")
			c.Get(u.RequestURI()).Is(303, "").HasHeader("Location", want)
		})
	}
}

// TestForgedAttempt: whoever can set cookies, as a neighbouring host can, cannot make an attempt of their own. The provider
// hears nothing of one.
func TestForgedAttempt(t *testing.T) {
	p, s := start(t)
	authorize, _ := url.Parse(begin(s.Client(), ""))
	asked := p.count("token")
	text := fmt.Sprintf("x.%d.%s", time.Now().Add(time.Minute).Unix(), base64.RawURLEncoding.EncodeToString([]byte("https://evil.example/")))
	for _, key := range []string{text, "", string(servicetest.Key)} {
		for _, content := range []string{"%s", "%s." + text, text + ".%s"} {
			derive := func(purpose string) string {
				return servicetest.Base64(string(servicetest.MAC(sha256.New, []byte(key), fmt.Sprintf(content, purpose))))
			}
			q := authorize.Query()
			challenge := sha256.Sum256([]byte(derive("verifier")))
			q.Set("state", derive("state"))
			q.Set("nonce", derive("nonce"))
			q.Set("code_challenge", base64.RawURLEncoding.EncodeToString(challenge[:]))
			authorize.RawQuery = q.Encode()
			u := p.consent(authorize.String(), called("1", "alice"))
			s.Client().Get(u.RequestURI(), servicetest.Cookies(nameOf(u)+"="+text)).IsError(400, "invalid_sign_in").SetsNoCookie()
		}
	}
	servicetest.Is(t, asked.Load(), 0, "calls that forged attempts cost")
}

// TestKeysOfAttempt: an attempt ends on every instance that knows the key which began it.
func TestKeysOfAttempt(t *testing.T) {
	p, s := start(t)
	const old, next = "the key of before, which is on its way out", "the next key, which will sign from now on"
	keys := func(keys ...string) *servicetest.Service {
		return s.NewInstance(p.options, func(o *servicetest.Options) {
			o.BaseURL, o.Keys = s.Options.BaseURL, nil
			for _, key := range keys {
				o.Keys = append(o.Keys, []byte(key))
			}
		})
	}
	before, both, after := keys(old), keys(old, next), keys(next, old)
	for i, test := range []struct {
		begin, end *servicetest.Service
		status     int
	}{{before, both, 303}, {both, before, 303}, {before, after, 303}, {after, both, 303}, {after, before, 400}, {before, keys(next), 400}} {
		c := test.begin.Client()
		u := p.consent(begin(c, ""), called(fmt.Sprint("key", i), "alice"))
		r := test.end.Client().Get(u.RequestURI(), servicetest.Cookies(nameOf(u)+"="+c.Cookie(nameOf(u))))
		servicetest.Is(t, r.Status, test.status, "%d %s", i, r.Body)
	}
}

func TestBasePath(t *testing.T) {
	p, s := start(t, func(o *servicetest.Options) { o.BaseURL.Path = "/worlds" })
	c := s.Client()
	away := c.Get("/sign-in")
	u := p.consent(away.Header.Get("Location"), called("1", "alice"))
	name := strings.TrimPrefix(nameOf(u), "__Host-")
	servicetest.Is(t, away.Cookie(name).Path, "/worlds", "path of the attempt's cookie")
	servicetest.Is(t, u.Path, "/worlds/sign-in/callback", "callback at %s", u)
	// The proxy in front strips the path.
	back := s.Client().Get("/sign-in/callback?"+u.RawQuery, servicetest.Cookies(name+"="+away.Cookie(name).Value))
	back.Is(303, "").HasHeader("Location", "/worlds/docs")
	servicetest.Is(t, back.Cookie("token").Path, "/worlds", "path of the session's cookie")
	servicetest.Is(t, back.Cookie(name).Path, "/worlds", "path of the attempt's cookie afterwards")
}

// The prefix __Host- is for https at the root of a host; browsers refuse it elsewhere.
func TestFlowCookieName(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	base := func(text string) servicetest.Option {
		return func(o *servicetest.Options) { o.BaseURL, _ = url.Parse(text) }
	}
	for _, test := range []struct {
		name, base, path, cookie string
		development              bool
	}{
		{"production", "https://example.org", "/sign-in", "__Host-signIn-", false},
		{"production with a slash", "https://example.org/", "/sign-in", "__Host-signIn-", false},
		{"production below a path", "https://example.org/app", "/sign-in", "signIn-", false},
		{"production without TLS", "http://example.org", "/sign-in", "signIn-", false},
		{"development", "https://example.org", "/sign-in/provider", "signIn-", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := servicetest.New(t, p.options, base(test.base), func(o *servicetest.Options) { o.Development = test.development })
			away := s.Client().Get(test.path)
			u, _ := url.Parse(away.Header.Get("Location"))
			kept := away.Cookie(strings.TrimPrefix(nameOf(u), strings.TrimSuffix(flowPrefix, test.cookie)))
			if test.cookie == flowPrefix {
				servicetest.True(t, kept.Secure && kept.Path == "/" && kept.Domain == "", "browsers take %v", kept)
			}
		})
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	has := func(r *servicetest.Response, text string, want bool) {
		t.Helper()
		servicetest.Is(t, strings.Contains(r.Body, text), want, "%q on the page\n%s", text, r.Body)
	}
	withDocs := func(o *servicetest.Options) { o.Docs = true }

	without := servicetest.New(t, servicetest.Production, withDocs)
	without.Client().Get("/sign-in").IsError(404, "not_found")
	without.Client().Get("/sign-in/callback").IsError(404, "not_found")
	has(without.Client().Get("/docs"), `/sign-in?`, false)

	production := servicetest.New(t, p.options, withDocs)
	has(production.Client().Get("/docs"), `<a href="/sign-in?return_to=/docs">`, true)
	production.Client().Post("/sign-in", "").IsError(405, "method_not_allowed")

	development := servicetest.New(t, p.options, func(o *servicetest.Options) { o.Development = true })
	c := development.Client()
	page := c.Get("/sign-in?return_to=/openapi.json%3Fa%26b")
	has(page, "any name signs in", true)
	has(page, "Sign in with 127.0.0.1:", true)
	has(page, `href="/sign-in/provider?return_to=%2fopenapi.json%3fa%26b"`, true)
	// Browsers let the form lead to no other address than its policy names.
	servicetest.Contains(t, page.Header.Get("Content-Security-Policy"), "form-action 'self' https://app.example.org http://localhost:5173;")
	away := c.Get("/sign-in/provider?return_to=/openapi.json").Header.Get("Location")
	c.Get(p.consent(away, called("1", "alice")).RequestURI()).Is(303, "").HasHeader("Location", "/openapi.json")
	isCalled(t, c, "alice")
	has(servicetest.New(t).Client().Get("/sign-in"), "Sign in with", false)
}
