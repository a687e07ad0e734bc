package oidc

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"
)

func newTestProvider(issuer string) (*Provider, *time.Time) {
	now := time.Unix(2_000_000_000, 0)
	c := Config{Issuer: issuer, ClientID: "client", ClientSecret: "secret", Scopes: []string{"openid"}, UsernameClaim: "name"}
	return New(c, "https://api.example.org/sign-in/callback", testSecrets, func() time.Time { return now }), &now
}

var testSecrets = [][]byte{[]byte("the first of the secrets that tests have"), []byte("the second of the secrets that tests have")}

func TestResumeFlow(t *testing.T) {
	p, now := newTestProvider("https://provider.example")
	f := p.NewFlow("/docs?x=1.2")
	other := p.NewFlow("/docs?x=1.2")
	state := url.Values{"state": {f.state()}, "code": {"c"}}
	parts := strings.Split(f.Cookie(), ".")
	for _, test := range []struct {
		name, cookie string
		callback     url.Values
		ok           bool
	}{
		{"its own", f.Cookie(), state, true},
		{"no cookie", "", state, false},
		{"rubbish", "x", state, false},
		{"three empty parts", "..", state, false},
		{"no number", parts[0] + ".x." + parts[2], state, false},
		{"no base64", parts[0] + "." + parts[1] + ".!", state, false},
		{"four parts", f.Cookie() + ".", state, false},
		{"what has ended", f.Ended(), state, false},
		{"another flow", other.Cookie(), state, false},
		{"another expiry", parts[0] + ".4102444800." + parts[2], state, false},
		{"another return URL", parts[0] + "." + parts[1] + "." + "L2V2aWw", state, false},
		{"no state", f.Cookie(), url.Values{"code": {"c"}}, false},
		{"empty state", f.Cookie(), url.Values{"state": {""}}, false},
		{"the cookie as state", f.Cookie(), url.Values{"state": {f.Cookie()}}, false},
		{"the nonce as state", f.Cookie(), url.Values{"state": {f.nonce()}}, false},
		{"state twice", f.Cookie(), url.Values{"state": {f.state(), f.state()}}, false},
		{"code twice", f.Cookie(), url.Values{"state": {f.state()}, "code": {"c", "d"}}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := p.ResumeFlow(test.cookie, test.callback)
			switch {
			case test.ok && (err != nil || got != f):
				t.Errorf("%+v, %v", got, err)
			case !test.ok && !errors.Is(err, ErrFlow):
				t.Error(err)
			}
		})
	}
	if want := now.Add(FlowTTL); !f.expires.Equal(want) {
		t.Errorf("expires %v, want %v", f.expires, want)
	}
}

// A flow ends wherever the secret is known that began it, first or not, and at no other issuer.
func TestResumeFlowKeys(t *testing.T) {
	c := Config{Issuer: "https://provider.example"}
	other := Config{Issuer: "https://other.example"}
	a, b := testSecrets[0], testSecrets[1]
	begin := New(c, "", [][]byte{a, b}, time.Now).NewFlow("/docs")
	for _, test := range []struct {
		name    string
		config  Config
		secrets [][]byte
		ok      bool
	}{
		{"another instance", c, [][]byte{a, b}, true},
		{"before the keys changed places", c, [][]byte{b, a}, true},
		{"the other key alone", c, [][]byte{b}, false},
		{"another issuer", other, [][]byte{a, b}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := New(test.config, "", test.secrets, time.Now)
			f, err := p.ResumeFlow(begin.Cookie(), url.Values{"state": {begin.state()}})
			if test.ok && (err != nil || f.verifier() != begin.verifier() || f.nonce() != begin.nonce()) || !test.ok && !errors.Is(err, ErrFlow) {
				t.Errorf("%+v, %v", f, err)
			}
		})
	}
}

// What goes to the provider, or comes back from it, says nothing about the other secrets of a flow.
func TestFlowSecretsDiffer(t *testing.T) {
	p, _ := newTestProvider("https://provider.example")
	seen := make(map[string]bool)
	for range 2 {
		f := p.NewFlow("/docs")
		for _, secret := range []string{f.Cookie(), f.state(), f.nonce(), f.verifier()} {
			if seen[secret] {
				t.Errorf("%q repeats", secret)
			}
			seen[secret] = true
		}
		if n := len(f.verifier()); n < 43 || n > 128 { // RFC 7636 section 4.1
			t.Errorf("the verifier has %d characters", n)
		}
	}
}

// A text that NewFlow has not written leads nowhere: only a state that nobody can compute would be accepted.
func FuzzResumeFlow(f *testing.F) {
	p, _ := newTestProvider("https://provider.example")
	flow := p.NewFlow("/docs")
	f.Add(flow.Cookie(), flow.state())
	f.Add("a.1.", "")
	f.Add("..", "x")
	f.Add("a.-9223372036854775808.!", "x")
	f.Fuzz(func(t *testing.T, cookie, state string) {
		got, err := p.ResumeFlow(cookie, url.Values{"state": {state}})
		if err == nil && (got.Cookie() != cookie || got.state() != state || len(state) != 43) {
			t.Fatalf("%+v", got)
		}
		if err != nil && (got != (Flow{ReturnTo: got.ReturnTo}) || !errors.Is(err, ErrFlow)) {
			t.Fatalf("%+v, %v", got, err)
		}
	})
}
