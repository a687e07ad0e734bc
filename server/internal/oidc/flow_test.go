package oidc

import (
	"errors"
	"net/url"
	"testing"
	"time"
)

func newTestProvider(issuer string) *Provider {
	secrets := [][]byte{[]byte("the first of the secrets that tests have"), []byte("the second of the secrets that tests have")}
	c := Config{Issuer: issuer, ClientID: "client", ClientSecret: "secret", Scopes: []string{"openid"}, UsernameClaim: "name"}
	return New(c, "https://api.example.org/sign-in/callback", secrets, func() time.Time { return time.Unix(2_000_000_000, 0) })
}

// What goes to the provider, or comes back from it, says nothing about the other secrets of a flow.
func TestFlowSecretsDiffer(t *testing.T) {
	p := newTestProvider("https://provider.example")
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
	p := newTestProvider("https://provider.example")
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
