package provider

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"worldevents/tests/servicetest"
)

// TestRefusedAttempts are callbacks that do not belong to the attempt of this browser.
func TestRefusedAttempts(t *testing.T) {
	p, s := start(t)
	alice := called("1", "alice")
	is := func(status int, code string, c *servicetest.Client, u *url.URL, changes ...string) {
		t.Helper()
		q := u.Query()
		for i := 0; i < len(changes); i += 2 {
			q.Set(changes[i], changes[i+1])
		}
		failed(t, s, c, c.Get("/sign-in/callback?"+q.Encode()), status, code)
	}
	refused := func(c *servicetest.Client, u *url.URL, changes ...string) {
		t.Helper()
		is(400, "invalid_sign_in", c, u, changes...)
	}
	// providers are faults that the provider alone can fix.
	providers := func(c *servicetest.Client, u *url.URL, changes ...string) {
		t.Helper()
		is(502, "provider_failed", c, u, changes...)
	}
	none := new(url.URL)

	refused(s.Client(), none)
	refused(s.Client(), p.consent(begin(s.Client(), ""), alice)) // another browser began: login CSRF
	c := s.Client()
	begin(c, "")
	refused(c, p.consent(begin(s.Client(), ""), alice)) // even when this one has begun as well
	u := p.consent(begin(c, ""), alice)
	refused(c, u, "state", "")
	refused(c, u, "state", u.Query().Get("state")+"x")
	refused(c, u, "state", c.Cookie(nameOf(u)))
	c.Get(u.RequestURI()+"&state="+u.Query().Get("state")).IsError(400, "invalid_sign_in")

	// None of these ended the attempt; this does, although it fails.
	refused(c, u, "code", "")
	refused(c, u)

	// The code of another attempt: its verifier is not ours.
	c = s.Client()
	stolen := p.consent(begin(s.Client(), ""), alice).Query().Get("code")
	providers(c, p.consent(begin(c, ""), alice), "code", stolen)

	// Another issuer's response.
	c = s.Client()
	providers(c, p.consent(begin(c, ""), alice), "iss", "https://other.example")
	c = s.Client()
	providers(c, p.consent(begin(c, ""), alice), "iss", p.issuer+"/")

	// The nonce of another attempt.
	c = s.Client()
	refused(c, p.consent(begin(c, ""), person{"sub": "1", "nonce": "another"}))
	for _, nonce := range []any{nil, 5, "", []string{"x"}, json.RawMessage("null")} {
		c = s.Client()
		providers(c, p.consent(begin(c, ""), person{"sub": "1", "nonce": nonce}))
	}

	// What the cookie says cannot be changed.
	c = s.Client()
	u = p.consent(begin(c, "/docs"), alice)
	parts := strings.Split(c.Cookie(nameOf(u)), ".")
	parts[2] = base64.RawURLEncoding.EncodeToString([]byte("/openapi.json"))
	changed := servicetest.Cookies(nameOf(u) + "=" + strings.Join(parts, "."))
	s.Client().Get(u.RequestURI(), changed).IsError(400, "invalid_sign_in")
	for _, rubbish := range []string{"", "x", "..", "a.b.c", "a.1.!", "x; " + nameOf(u) + "=" + c.Cookie(nameOf(u))} {
		s.Client().Get(u.RequestURI(), servicetest.Cookies(nameOf(u)+"="+rubbish)).IsError(400, "invalid_sign_in").SetsNoCookie()
	}

	// Too late, although the browser still has the cookie.
	late := servicetest.Cookies(nameOf(u) + "=" + c.Cookie(nameOf(u)))
	s.Clock.Advance(10 * time.Minute)
	expired := s.Client()
	failed(t, s, expired, expired.Get(u.RequestURI(), late), 400, "invalid_sign_in")
	s.Clock.Advance(-10 * time.Minute)
	c.Get(u.RequestURI()).Is(303, "") // else all is well with it
	p.checkLog(s)
}

// TestReplay repeats a callback that went well, with all cookies of then.
func TestReplay(t *testing.T) {
	p, s := start(t)
	c := s.Client()
	u := p.consent(begin(c, ""), called("1", "alice"))
	cookie := servicetest.Cookies(nameOf(u) + "=" + c.Cookie(nameOf(u)))
	c.Get(u.RequestURI()).Is(303, "")
	c.Get(u.RequestURI()).IsError(400, "invalid_sign_in").SetsNoCookie() // back button: the cookie is gone
	r := s.Client().Get(u.RequestURI(), cookie).IsError(502, "provider_failed")
	servicetest.Lacks(t, strings.Join(r.Header.Values("Set-Cookie"), "\n"), "oken=")
	c.Get("/api/auth/refresh").Is(200, servicetest.Success) // the session that began is unharmed
	p.checkLog(s)
}

func TestRefusedByProvider(t *testing.T) {
	p, s := start(t)
	for _, code := range []string{
		"access_denied", "server_error", "temporarily_unavailable", "login_required", "<script>", "call_the_operator", "a\nlevel=ERROR", "server_error ", "Server_Error",
	} {
		s.Run(t, code, func(t *testing.T) {
			c := s.Client()
			u := p.consent(begin(c, ""), nil)
			q := url.Values{"state": u.Query()["state"], "error": {code}, "error_description": {"<b>no</b>"}}
			if res := c.Get("/sign-in/callback?" + q.Encode()); code == "access_denied" {
				failed(t, s, c, res, 403, "access_denied")
			} else {
				failed(t, s, c, res, 502, "provider_failed")
			}
			failed(t, s, c, c.Get(u.RequestURI()), 400, "invalid_sign_in") // a no cannot become a yes
			// A no of somebody else's attempt ends none.
			other := p.consent(begin(c, ""), nil)
			failed(t, s, c, c.Get("/sign-in/callback?"+q.Encode()), 400, "invalid_sign_in")
			servicetest.True(t, c.Cookie(nameOf(other)) != "" && c.Cookie(nameOf(other))[0] != '.', "the other attempt goes on")
		})
	}
	const name = `worldevents_sign_ins_total{outcome="provider_failed",way="provider"}`
	servicetest.Eventually(t, name, func() bool { return servicetest.Metric(t, s, name) == 8 })
	for text, want := range map[string]bool{
		"server_error": true, "login_required": true,
		"script": false, "call_the_operator": false, "level=ERROR": false, "Server_Error": false, "<b>": false,
	} {
		servicetest.Is(t, strings.Contains(s.Log.String(), text), want, "%q is in the log", text)
	}
}

// TestIssuerParameter: a provider that says that it names itself must do so (RFC 9207 section 2.4).
func TestIssuerParameter(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.respond("openid-configuration", p.metadata(map[string]any{"authorization_response_iss_parameter_supported": true}))
	s := servicetest.New(t, p.options)
	c := s.Client()
	failed(t, s, c, p.signIn(c, called("1", "alice"), ""), 502, "provider_failed")
	u := p.consent(begin(c, ""), called("1", "alice"))
	c.Get(u.RequestURI()+"&iss="+url.QueryEscape(p.issuer)).Is(303, "")
}

// failure is what an endpoint returns, or what an ID token claims.
type failure struct {
	endpoint string
	with     http.HandlerFunc
	who      person
}

func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// failures are what a provider can get wrong.
func failures(p *provider) map[string]failure {
	moved := func(then http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.RawQuery == "" {
				http.Redirect(w, r, r.URL.Path+"?moved", http.StatusTemporaryRedirect) // which repeats the body
				return
			}
			then(w, r)
		}
	}
	huge := func(then http.HandlerFunc) http.HandlerFunc { // right, if one would stop reading in time
		return func(w http.ResponseWriter, r *http.Request) {
			then(w, r)
			io.WriteString(w, strings.Repeat(" ", 2<<20))
		}
	}
	echo := func(w http.ResponseWriter, r *http.Request) { // repeats what it was sent, secret and code included
		r.ParseForm()
		http.Error(w, r.Form.Encode()+r.Header.Get("Authorization"), 500)
	}
	stranger := responds(400, `{"error":"call_the_operator","error_description":"call_the_operator"}`)
	metadata := func(name string, value any) http.HandlerFunc { return p.metadata(map[string]any{name: value}) }
	idToken := func(sign func(claims jwt.MapClaims) string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			now := time.Now()
			respondTokens(w, "x", sign(jwt.MapClaims{"iss": p.issuer, "aud": p.clientID, "sub": "1", "iat": now.Unix(), "exp": now.Add(time.Minute).Unix()}))
		}
	}
	// followed is an ID token in which a claim is followed by another, which is ours.
	followed := func(name string, value any, other string, ours any) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			nonce := p.codes[r.PostFormValue("code")].Get("nonce")
			claims := map[string]any{"iss": p.issuer, "aud": p.clientID, "sub": "1", "preferred_username": "alice", "exp": time.Now().Add(time.Minute).Unix(), "nonce": nonce, name: value}
			text, _ := json.Marshal(claims)
			last, _ := json.Marshal(ours)
			respondTokens(w, "x", p.sign(fmt.Sprintf("%s,%q:%s}", text[:len(text)-1], other, last)))
		}
	}

	return map[string]failure{
		"discovery: error":                 {"openid-configuration", responds(503, ""), nil},
		"discovery: error with text":       {"openid-configuration", stranger, nil},
		"discovery: moved":                 {"openid-configuration", moved(p.usual("openid-configuration")), nil},
		"discovery: no JSON":               {"openid-configuration", responds(200, "<html>"), nil},
		"discovery: huge":                  {"openid-configuration", huge(p.usual("openid-configuration")), nil},
		"discovery: hangs up":              {"openid-configuration", hangUp, nil},
		"discovery: another issuer":        {"openid-configuration", metadata("issuer", "https://other.example"), nil},
		"discovery: issuer with a slash":   {"openid-configuration", metadata("issuer", p.issuer+"/"), nil},
		"discovery: no token endpoint":     {"openid-configuration", metadata("token_endpoint", nil), nil},
		"discovery: no keys":               {"openid-configuration", metadata("jwks_uri", ""), nil},
		"discovery: script as address":     {"openid-configuration", metadata("authorization_endpoint", "javascript:alert(1)"), nil},
		"discovery: text as issuer switch": {"openid-configuration", metadata("authorization_response_iss_parameter_supported", "yes"), nil},

		"token: error":             {"token", responds(500, ""), nil},
		"token: error with text":   {"token", stranger, nil},
		"token: repeats secrets":   {"token", echo, nil},
		"token: moved":             {"token", moved(p.token), nil},
		"token: huge":              {"token", huge(p.token), nil},
		"token: hangs up":          {"token", hangUp, nil},
		"token: client is unknown": {"token", responds(401, `{"error":"invalid_client"}`), nil},
		"token: no ID token":       {"token", responds(200, `{"access_token":"x","token_type":"Bearer"}`), nil},
		"token: number for it":     {"token", responds(200, `{"access_token":"x","token_type":"Bearer","id_token":1}`), nil},

		"ID token: unsigned": {"token", idToken(func(c jwt.MapClaims) string {
			text, _ := jwt.NewWithClaims(jwt.SigningMethodNone, c).SignedString(jwt.UnsafeAllowNoneSignatureType)
			return text
		}), nil},
		"ID token: signed with our secret": {"token", idToken(func(c jwt.MapClaims) string {
			text, _ := jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString([]byte(p.secret))
			return text
		}), nil},
		"ID token: key unknown":             {"keys", responds(200, `{"keys":[]}`), nil},
		"ID token: keys away":               {"keys", responds(500, ""), nil},
		"ID token: text for keys":           {"keys", stranger, nil},
		"ID token: expired":                 {"", nil, person{"sub": "1", "exp": time.Now().Add(-time.Minute).Unix()}},
		"ID token: without expiry":          {"", nil, person{"sub": "1", "exp": nil}},
		"ID token: of another issuer":       {"", nil, person{"sub": "1", "iss": "https://other.example"}},
		"ID token: for another":             {"", nil, person{"sub": "1", "aud": "other"}},
		"ID token: for us among others":     {"", nil, person{"sub": "1", "aud": []string{"other", p.clientID}}},
		"ID token: authorized party":        {"", nil, person{"sub": "1", "azp": "other"}},
		"ID token: authorized party's type": {"", nil, person{"sub": "1", "azp": 1}},
		"ID token: without subject":         {"", nil, person{"preferred_username": "alice"}},
		"ID token: empty subject":           {"", nil, person{"sub": ""}},
		"ID token: subject of other case":   {"", nil, person{"Sub": "1", "preferred_username": "alice"}},
		"ID token: party of other case":     {"", nil, person{"sub": "1", "aud": []string{p.clientID, "other"}, "Azp": p.clientID}},
		"ID token: expiry is a text":        {"", nil, person{"sub": "1", "exp": fmt.Sprint(time.Now().Add(time.Hour).Unix())}},
		"ID token: audience of other case":  {"token", followed("aud", "other", "Aud", p.clientID), nil},
		"ID token: issuer of other case":    {"token", followed("iss", "https://other.example", "Iss", p.issuer), nil},
		"ID token: expiry of other case":    {"token", followed("exp", 1, "Exp", time.Now().Add(time.Hour).Unix()), nil},
		"ID token: two subjects":            {"token", followed("sub", "2", "sub", "1"), nil},
		"ID token: long subject":            {"", nil, person{"sub": strings.Repeat("x", 256)}},
		"ID token: NUL in subject":          {"", nil, person{"sub": "a\x00b"}},
	}
}

// TestProviderFails goes through failures. It never matters which: nobody is signed in.
func TestProviderFails(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	for name, test := range failures(p) {
		t.Run(name, func(t *testing.T) {
			s := servicetest.New(t, p.options) // which knows nothing of the provider
			p.respond(test.endpoint, test.with)
			c := s.Client()
			r := c.Get("/sign-in")
			if test.endpoint == "openid-configuration" {
				r.SetsNoCookie()
			} else if test.who == nil {
				r = c.Get(p.consent(r.Header.Get("Location"), called("1", "alice")).RequestURI())
			} else {
				r = c.Get(p.consent(r.Header.Get("Location"), test.who).RequestURI())
			}
			failed(t, s, c, r, 502, "provider_failed")
			servicetest.Is(t, s.Database.Count("users"), 0, "users")
			p.checkLog(s)
			servicetest.Lacks(t, s.Log.String(), "call_the_operator")

			p.respond(test.endpoint, nil) // back again: nothing of the failure is left
			p.signIn(c, called("1", "alice"), "").Is(303, "")
		})
	}
}

// TestDatabaseAway: the provider has said yes, and the user cannot be stored.
func TestDatabaseAway(t *testing.T) {
	p, s := start(t)
	c := s.Client()
	u := p.consent(begin(c, ""), called("1", "alice"))
	s.Database.Exec("ALTER TABLE users RENAME TO gone")
	r := c.Get(u.RequestURI()).IsError(500, "internal")
	servicetest.Is(t, r.Error().Detail, "finish sign in: unexpected error", "detail")
	s.Database.Exec("ALTER TABLE gone RENAME TO users")
	failed(t, s, c, c.Get(u.RequestURI()), 400, "invalid_sign_in")
}

// Who is known signs in whatever the UserInfo endpoint says of a name that nobody needs, and who is new gets what a missing claim gives.
func TestUserInfoFails(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	echo := func(w http.ResponseWriter, r *http.Request) { http.Error(w, r.Header.Get("Authorization"), 500) }
	for name, with := range map[string]http.HandlerFunc{
		"error": responds(500, "call_the_operator"), "no JSON": responds(200, "call_the_operator"), "nothing": responds(200, "null"), "repeats the token": echo,
		"subject of other case":  responds(200, `{"Sub":"1","preferred_username":"mallory"}`),
		"two subjects":           responds(200, `{"sub":"2","sub":"1","preferred_username":"mallory"}`),
		"another subject":        responds(200, `{"sub":"3","preferred_username":"mallory"}`),
		"hangs up":               hangUp,
		"moved":                  http.RedirectHandler("/elsewhere", http.StatusTemporaryRedirect).ServeHTTP,
		"a name of another type": responds(200, `{"sub":"1","preferred_username":5}`),
	} {
		t.Run(name, func(t *testing.T) {
			s := servicetest.New(t, p.options)
			p.signIn(s.Client(), called("2", "bob"), "").Is(303, "")
			p.respond("userinfo", with)
			defer p.respond("userinfo", nil)
			for subject, want := range map[string]string{"1": "user-", "2": "bob"} {
				c := s.Client()
				p.signIn(c, person{"sub": subject}, "").Is(303, "")
				isCalled(t, c, want)
			}
			if name != "a name of another type" {
				servicetest.Is(t, strings.Count(s.Log.String(), "gave no name"), 2, "lines about the name")
			}
			p.checkLog(s)
			servicetest.Lacks(t, s.Log.String(), "call_the_operator")
		})
	}
}

// TestBehindBacks: other pages can send people to sign in, but not make their browsers do it unseen.
func TestBehindBacks(t *testing.T) {
	p, s := start(t)
	c := s.Client()
	alice := called("1", "alice")
	u := p.consent(begin(c, ""), alice)
	with := func(dest, mode, site, purpose string) (all []servicetest.RequestOption) {
		for name, value := range map[string]string{"Dest": dest, "Mode": mode, "Site": site} {
			all = append(all, servicetest.Header("Sec-Fetch-"+name, value))
		}
		if purpose != "" {
			all = append(all, servicetest.Header("Sec-Purpose", purpose))
		}
		return all
	}
	for _, path := range []string{"/sign-in", u.RequestURI()} {
		for _, header := range [][]servicetest.RequestOption{
			{servicetest.Header("Sec-Fetch-Dest", "iframe")}, {servicetest.Header("Sec-Purpose", "prefetch")},
			with("iframe", "navigate", "cross-site", ""), with("frame", "navigate", "same-site", ""), with("object", "navigate", "same-origin", ""),
			with("document", "navigate", "same-origin", "prefetch;prerender"), with("empty", "navigate", "same-origin", "prefetch"),
			// Through a service worker: an image, a script, a fetch of the origin itself and of another.
			with("empty", "no-cors", "same-origin", ""), with("empty", "cors", "same-origin", ""), with("image", "no-cors", "same-origin", ""),
			with("empty", "same-origin", "cross-site", ""), with("empty", "same-origin", "same-site", ""), with("empty", "cors", "cross-site", ""),
			with("empty", "", "same-origin", ""), with("empty", "", "", ""),
		} {
			c.Get(path, header...).IsError(403, "cross_origin").SetsNoCookie()
		}
	}
	for _, window := range [][]servicetest.RequestOption{
		nil, with("document", "navigate", "cross-site", ""), with("document", "navigate", "none", ""),
		with("empty", "navigate", "cross-site", ""), with("empty", "navigate", "same-origin", ""), with("empty", "same-origin", "same-origin", ""),
	} {
		c := s.Client()
		away := c.Get("/sign-in", window...).Is(303, "")
		c.Get(p.consent(away.Header.Get("Location"), alice).RequestURI(), window...).Is(303, "")
	}
}

// TestFaultPage is what people see.
func TestFaultPage(t *testing.T) {
	p, s := start(t)
	c := s.Client()
	state := p.consent(begin(c, "https://app.example.org/a?b"), nil).Query().Get("state")
	res := c.Get("/sign-in/callback?error=access_denied&state="+state, servicetest.Header("Accept", "text/html,application/xhtml+xml,*/*;q=0.8"))
	res.Has(403).HasHeader("Content-Type", "text/html; charset=utf-8").HasHeader("Cache-Control", "no-store")
	servicetest.Contains(t, res.Header.Get("Content-Security-Policy"), "default-src 'none'; style-src 'self'")
	for _, part := range []string{
		"The sign-in was cancelled", res.Header.Get("X-Request-Id"), `href="/sign-in?return_to=https%3A%2F%2Fapp.example.org%2Fa%3Fb"`,
	} {
		servicetest.Contains(t, res.Body, part)
	}
}
