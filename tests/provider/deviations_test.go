package provider

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// endpoint has the provider give what change makes of an endpoint's usual response.
func (p *provider) endpoint(name string, change func(all map[string]any, header http.Header)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		usual := httptest.NewRecorder()
		p.usual(name)(usual, r)
		var all map[string]any
		json.Unmarshal(usual.Body.Bytes(), &all)
		change(all, w.Header())
		text, _ := json.Marshal(all)
		if w.Header().Get("Content-Type") == "" {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(usual.Code)
		w.Write(text)
	}
}

// TestDeviations are what providers do that no sign-in suffers from: members of tokens and metadata that nobody needs are anything.
func TestDeviations(t *testing.T) {
	t.Parallel()
	odd := []any{nil, 5, 300.5, "", "x", true, []any{}, []any{""}, []any{5, nil}, map[string]any{}, map[string]any{"a": []any{}}}
	for _, kind := range []struct {
		endpoint string
		members  []string
	}{
		{"openid-configuration", []string{
			"userinfo_endpoint", "end_session_endpoint", "registration_endpoint", "revocation_endpoint", "introspection_endpoint", "device_authorization_endpoint",
			"scopes_supported", "response_types_supported", "subject_types_supported", "claims_supported", "grant_types_supported", "code_challenge_methods_supported",
			"backchannel_logout_supported", "check_session_iframe", "service_documentation", "mtls_endpoint_aliases", "acr_values_supported",
		}},
		{"token", []string{"expires_in", "token_type", "refresh_token", "scope", "session_state", "not-before-policy", "error_description", "expires", "error_uri"}},
	} {
		t.Run(kind.endpoint, func(t *testing.T) {
			p, s := start(t)
			alice := called("1", "alice")
			alice["exp"] = time.Now().AddDate(1, 0, 0).Unix()
			for _, member := range kind.members {
				for _, value := range odd {
					p.respond(kind.endpoint, p.endpoint(kind.endpoint, func(all map[string]any, _ http.Header) {
						all[member] = value
					}))
					s.Clock.Advance(time.Hour) // the metadata and the keys are read again
					servicetest.Is(t, p.signIn(s.Client(), alice, "").Status, 303, "%s %v", member, value)
				}
			}
			p.checkLog(s)
		})
	}
	t.Run("claims", func(t *testing.T) {
		p, s := start(t)
		for _, claim := range []string{"iat", "at_hash", "c_hash", "auth_time", "nbf", "acr", "amr", "email", "email_verified", "jti", "typ", "Sub", "groups", "address", "sid"} {
			for _, value := range odd {
				who := called("1", "alice")
				who[claim] = value
				servicetest.Is(t, p.signIn(s.Client(), who, "").Status, 303, "%s %v", claim, value)
			}
		}
	})
	t.Run("heads of tokens", func(t *testing.T) {
		p, s := start(t)
		for _, member := range []string{"x5c", "x5t", "x5u", "jwk", "jku", "typ", "cty", "nonce", "url", "b64", "zip"} {
			for _, value := range odd {
				p.head = map[string]any{member: value}
				servicetest.Is(t, p.signIn(s.Client(), called("1", "alice"), "").Status, 303, "%s %v", member, value)
			}
		}
		for _, kid := range []any{nil, 5} {
			p.head = map[string]any{"kid": kid}
			servicetest.Is(t, p.signIn(s.Client(), called("1", "alice"), "").Status, 303, "kid %v", kid)
		}
		for _, head := range []map[string]any{
			{"crit": []any{"exp"}}, {"crit": []any{}}, {"alg": "RS512"}, {"alg": "PS256"}, {"alg": "none"}, {"alg": 5}, {"alg": nil}, {"alg": "rs256"}, {"alg": "HS256"},
			{"kid": "another"}, {"kid": "another", "jwk": p.publicKey()},
		} {
			p.head = head
			servicetest.Is(t, p.signIn(s.Client(), called("1", "alice"), "").Status, 502, "%v", head)
		}
	})
	t.Run("media types", func(t *testing.T) {
		t.Parallel()
		for _, mediaType := range []string{"text/plain", "text/html; charset=utf-8", "application/octet-stream", "application/x-www-form-urlencoded", "application/JSON;x", "%"} {
			for _, endpoint := range []string{"openid-configuration", "keys", "token", "userinfo"} {
				p := newProvider(t)
				s := servicetest.New(t, p.options)
				p.respond(endpoint, p.endpoint(endpoint, func(_ map[string]any, header http.Header) { header.Set("Content-Type", mediaType) }))
				c := s.Client()
				p.signIn(c, person{"sub": "1"}, "").Is(303, "")
			}
		}
	})
	// Members that come twice, with invalid numbers or text in what nobody needs.
	t.Run("odd JSON", func(t *testing.T) {
		p, s := start(t)
		alice := called("1", "alice")
		alice["exp"] = time.Now().AddDate(1, 0, 0).Unix()
		const odd = `"x":1,"x":{"a":1,"a":2},"y":1e400,"claims_supported":[],"claims_supported":5,"expires_in":1,"expires_in":"x","alg":"A","alg":"B","z":"` + "\xff\""
		for _, endpoint := range []string{"openid-configuration", "token"} {
			p.respond(endpoint, func(w http.ResponseWriter, r *http.Request) {
				usual := httptest.NewRecorder()
				p.usual(endpoint)(usual, r)
				w.Write([]byte(strings.Replace(usual.Body.String(), "{", "{"+odd+",", 1)))
			})
			s.Clock.Advance(time.Hour)
			servicetest.Is(t, p.signIn(s.Client(), alice, "").Status, 303, "%s", endpoint)
			p.respond(endpoint, nil)
		}
		alice["y"] = json.RawMessage("1e400")
		p.signIn(s.Client(), alice, "").Is(303, "")
	})
	// Keys that cannot be used are left out, and the log says which.
	t.Run("other keys", func(t *testing.T) {
		p, s := start(t)
		p.respond("keys", p.endpoint("keys", func(all map[string]any, _ http.Header) {
			keys := all["keys"].([]any)
			of := func(change map[string]any) map[string]any {
				other := maps.Clone(keys[0].(map[string]any))
				merge(other, change)
				return other
			}
			same := keys[0].(map[string]any)["kid"]
			all["keys"] = []any{
				of(map[string]any{"kid": "encrypts", "use": "enc"}), of(map[string]any{"kid": "broken", "x5c": 5}), of(map[string]any{"n": "AQAB"}), 5, nil, "x", map[string]any{},
				map[string]any{"kty": "OKP", "crv": "X25519", "kid": "later", "x": "AAAA"}, map[string]any{"kty": "oct", "kid": same, "k": "AAAA"},
				of(map[string]any{"n": servicetest.Base64(string(newKey().N.Bytes()))}), // another key of the same name
				of(map[string]any{"kid": 5}), keys[0], keys[0],
			}
		}))
		p.signIn(s.Client(), called("1", "alice"), "").Is(303, "")
		for kid, want := range map[string]bool{"encrypts": false, "broken": true, "later": true} {
			servicetest.Is(t, strings.Contains(s.Log.String(), kid), want, "%s in the log: %s", kid, s.Log)
		}
	})
	// No key is used for an algorithm that the provider does not say it signs with.
	t.Run("algorithms", func(t *testing.T) {
		t.Parallel()
		for _, test := range []struct {
			algorithms any
			status     int
		}{
			{nil, 303}, {json.RawMessage("null"), 303}, {[]any{}, 303}, {5, 303}, {[]any{"RS256"}, 303}, {[]any{"none", 5, "HS256", "RS256"}, 303},
			{[]any{"ES256"}, 502}, {[]any{"PS256"}, 502}, {[]any{"HS256", "none"}, 502}, {[]any{"RS512"}, 502}, {[]any{"rs256"}, 502},
		} {
			p := newProvider(t)
			s := servicetest.New(t, p.options)
			p.respond("openid-configuration", p.metadata(map[string]any{"id_token_signing_alg_values_supported": test.algorithms}))
			servicetest.Is(t, p.try(s.Client()).Status, test.status, "%v: %s", test.algorithms, s.Log)
		}
	})
}

// TestClientAuthentication: the list of the metadata says how the client authenticates. With both, or without a list, basic is tried before
// post, and what has worked is kept, over new metadata, too.
func TestClientAuthentication(t *testing.T) {
	t.Parallel()
	const basic, post, none = "client_secret_basic", "client_secret_post", "none"
	for _, test := range []struct {
		name    string
		methods any    // nil for no list
		takes   string // what the provider takes
		public  bool
		status  int
		asked   int64 // requests to the token endpoint
		says    string
	}{
		{"post alone", []any{post}, post, false, 303, 3, ""},
		{"basic alone", []any{basic}, basic, false, 303, 3, ""},
		{"both, and post works", []any{basic, post}, post, false, 303, 4, ""},
		{"both, and this client is one of basic", []any{basic, post}, basic, false, 303, 3, ""},
		{"others, too", []any{"private_key_jwt", basic, "tls_client_auth"}, basic, false, 303, 3, ""},
		{"neither", []any{"private_key_jwt", "tls_client_auth"}, post, false, 502, 0, "private_key_jwt, tls_client_auth"},
		{"none, and there is a secret", []any{none}, post, false, 502, 0, "by none"},
		{"no list, basic", nil, basic, false, 303, 3, ""},
		{"no list, post", nil, post, false, 303, 4, ""},
		{"another type", 5, post, false, 303, 4, ""},
		{"an empty list", []any{}, basic, false, 303, 3, ""},
		{"public: none", []any{basic, none}, none, true, 303, 3, ""},
		{"public, as Keycloak says it", []any{"private_key_jwt", basic, post}, none, true, 303, 3, ""},
		{"public, no list", nil, none, true, 303, 3, ""},
		{"public, basic alone", []any{basic}, none, true, 303, 3, ""},
		{"public: neither", []any{"private_key_jwt"}, none, true, 502, 0, "private_key_jwt"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t)
			if test.public {
				p.setSecret("")
			}
			p.takes = test.takes
			p.respond("openid-configuration", p.metadata(map[string]any{"token_endpoint_auth_methods_supported": test.methods}))
			s := servicetest.New(t, p.options)
			asked := p.count("token")
			for i := range 3 {
				servicetest.Is(t, p.try(s.Client()).Status, test.status, "sign-in %d: %s", i, s.Log)
				s.Clock.Advance(time.Hour) // the metadata is read again
			}
			servicetest.Is(t, asked.Load(), test.asked, "requests to the token endpoint")
			servicetest.Contains(t, s.Log.String(), test.says)
			p.checkLog(s)
		})
	}
}

// TestAudiences: others beside us are trusted only where azp says that the token is ours, and the log names them.
func TestAudiences(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	us, other := p.clientID, "https://other.example/api"
	for _, test := range []struct {
		aud, azp any
		status   int
		says     string
	}{
		{us, nil, 303, ""}, {[]any{us}, nil, 303, ""}, {[]any{us}, us, 303, ""}, {us, us, 303, ""}, {[]any{us, other}, us, 303, ""}, {[]any{us, us}, nil, 303, ""},
		{[]any{us, other}, nil, 502, other}, {[]any{other, us}, other, 502, other}, {us, other, 502, other}, {us, 5, 502, "azp is 5"}, {us, "", 502, "azp"},
		{other, nil, 502, other}, {other, us, 502, other}, {[]any{}, nil, 502, "aud is []"}, {nil, nil, 502, "aud"}, {[]any{us, 5}, us, 502, "aud"},
	} {
		s := servicetest.New(t, p.options)
		who := person{"sub": "1", "aud": test.aud}
		if test.azp != nil {
			who["azp"] = test.azp
		}
		c := s.Client()
		r := p.signIn(c, who, "")
		servicetest.Is(t, r.Status, test.status, "aud %v, azp %v: %s", test.aud, test.azp, s.Log)
		servicetest.Contains(t, s.Log.String(), test.says)
		if test.status == 502 {
			name := `worldevents_sign_ins_total{outcome="provider_failed",way="provider"}`
			servicetest.Eventually(t, name, func() bool { return servicetest.Metric(t, s, name) == 1 })
		}
	}
}

// TestTabs: every sign-in of a browser leads to its own return_to, in whatever order they end. What is late or repeated leads on to a
// sign-in with it. A browser forgets the oldest where they are too long together.
func TestTabs(t *testing.T) {
	p, s := start(t)
	html := servicetest.Header("Accept", "text/html")
	leadsTo := func(r *servicetest.Response, path string) {
		t.Helper()
		servicetest.Contains(t, r.Has(400).Body, "return_to="+url.QueryEscape(path)+`"`)
	}
	c := s.Client()
	var tabs []*url.URL
	for _, path := range []string{"/docs?1", "/docs?2", "/docs?3"} {
		tabs = append(tabs, p.consent(begin(c, path), called("1", "alice")))
	}
	for _, i := range []int{1, 2, 0} {
		c.Get(tabs[i].RequestURI()).Is(303, "").HasHeader("Location", []string{"/docs?1", "/docs?2", "/docs?3"}[i])
	}
	for i, path := range []string{"/docs?1", "/docs?2", "/docs?3"} { // the back button
		leadsTo(c.Get(tabs[i].RequestURI(), html), path)
	}

	late := p.consent(begin(c, "https://app.example.org/late"), called("1", "alice"))
	s.Clock.Advance(10 * time.Minute)
	leadsTo(c.Get(late.RequestURI(), html), "https://app.example.org/late")

	// What a cookie says that we have not written leads nowhere else.
	forged := servicetest.Cookies(nameOf(late) + "=." + "1." + servicetest.Base64("https://evil.example/"))
	leadsTo(s.Client().Get(late.RequestURI(), html, forged), "/docs")

	many := s.Client()
	tabs = nil
	for range 10 {
		tabs = append(tabs, p.consent(begin(many, "/"+strings.Repeat("x", 500)), called("1", "alice")))
	}
	for i, tab := range tabs {
		servicetest.Is(t, many.Cookie(nameOf(tab)) != "", i >= 5, "attempt %d of 10, of some 780 bytes, is kept", i)
	}
	long := s.Client()
	first := p.consent(begin(long, "/"+strings.Repeat("x", 1999)), called("1", "alice"))
	second := p.consent(begin(long, "/"+strings.Repeat("y", 1999)), called("1", "alice"))
	servicetest.Is(t, long.Cookie(nameOf(first)), "", "the cookie of the first long attempt")
	long.Get(second.RequestURI()).Is(303, "")
}

// TestPageOfProviderExpired: where a page of Keycloak has expired its user may begin again.
func TestPageOfProviderExpired(t *testing.T) {
	p, s := start(t)
	c := s.Client()
	q := url.Values{"state": p.consent(begin(c, "/docs?x"), nil).Query()["state"], "error": {"temporarily_unavailable"}, "error_description": {"authentication_expired"}}
	expired := c.Get("/sign-in/callback?"+q.Encode(), servicetest.Header("Accept", "text/html"))
	servicetest.Contains(t, expired.Has(400).Body, "return_to="+url.QueryEscape("/docs?x")+`"`)
}

// TestCancelled: a no of the user is told as theirs, also where the provider names itself elsewhere.
func TestCancelled(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.respond("openid-configuration", p.metadata(map[string]any{"authorization_response_iss_parameter_supported": true}))
	s := servicetest.New(t, p.options)
	for iss, want := range map[string]int{"": 403, p.issuer: 403, p.issuer + "/": 502, "https://other.example": 502} {
		c := s.Client()
		q := url.Values{"state": p.consent(begin(c, ""), nil).Query()["state"], "error": {"access_denied"}}
		if iss != "" {
			q.Set("iss", iss)
		}
		code := map[int]string{403: "access_denied", 502: "provider_failed"}[want]
		failed(t, s, c, c.Get("/sign-in/callback?"+q.Encode()), want, code)
	}
}
