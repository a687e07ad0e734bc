package oidc

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// FlowTTL bounds the time of a user at the provider.
const FlowTTL = 10 * time.Minute

// Flow is a sign-in under way: a random secret, its expiry, and its target, kept only in a cookie of the browser. State, nonce and PKCE
// verifier are MACs of the whole text with a key of the service: a callback counts in this browser only, and nobody can make or change one.
type Flow struct {
	// ReturnTo is the target of the sign-in.
	ReturnTo string

	text    string // the cookie's value
	expires time.Time
	key     flowKey
}

type flowKey [sha256.Size]byte

// newFlowKey derives a key from a secret and the issuer, so that no code goes to another provider after a change of the configuration.
func newFlowKey(secret []byte, issuer string) flowKey {
	key, err := hkdf.Key(sha256.New, secret, nil, "worldevents sign-in at "+issuer, sha256.Size)
	if err != nil { // too long for HKDF
		panic(err)
	}
	return flowKey(key)
}

// NewFlow begins a sign-in.
func (p *Provider) NewFlow(returnTo string) Flow {
	text := fmt.Sprintf("%s.%d.%s", rand.Text(), p.now().Add(FlowTTL).Unix(), base64.RawURLEncoding.EncodeToString([]byte(returnTo)))
	f, _ := parseFlow(text)
	f.key = (*p.keys.Load())[0]
	return f
}

// ResumeFlow returns the flow in cookie, if this service began it and the callback belongs to it. With ErrFlow it returns only ReturnTo, of
// an unknown author. It ignores the expiry.
func (p *Provider) ResumeFlow(cookie string, callback url.Values) (Flow, error) {
	f, ok := parseFlow(cookie)
	if !ok {
		return Flow{}, fmt.Errorf("%w: none in this browser", ErrFlow)
	}
	other := Flow{ReturnTo: f.ReturnTo}
	for _, values := range callback {
		if len(values) > 1 { // RFC 6749 section 3.1
			return other, fmt.Errorf("%w: repeated parameter", ErrFlow)
		}
	}
	for _, f.key = range *p.keys.Load() {
		if hmac.Equal([]byte(callback.Get("state")), []byte(f.state())) {
			return f, nil
		}
	}
	return other, fmt.Errorf("%w: it has ended, or the state is another's", ErrFlow)
}

// parseFlow does not authenticate the text; comparing state, a MAC of it, does.
func parseFlow(text string) (Flow, bool) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return Flow{}, false
	}
	expires, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return Flow{}, false
	}
	returnTo, err := base64.RawURLEncoding.DecodeString(parts[2])
	return Flow{ReturnTo: string(returnTo), text: text, expires: time.Unix(expires, 0)}, err == nil
}

// Cookie returns the secret value of the flow's cookie.
func (f Flow) Cookie() string { return f.text }

// Ended is the value of the cookie after the flow: its target, without a valid state.
func (f Flow) Ended() string { return f.text[strings.IndexByte(f.text, '.'):] }

// ID distinguishes the flows of a browser. It is no secret.
func (f Flow) ID() string { return FlowID(f.state()) }

// FlowID returns the ID of the flow with a callback's state.
func FlowID(state string) string { return state[:min(len(state), 8)] }

// state returns in the callback (RFC 6749 section 10.12).
func (f Flow) state() string { return f.derive("state") }

// nonce returns in the ID token (OpenID Connect Core 1.0 section 15.5.2).
func (f Flow) nonce() string { return f.derive("nonce") }

// verifier proves that the same client began the flow (RFC 7636 section 4.1).
func (f Flow) verifier() string { return f.derive("verifier") }

func (f Flow) derive(purpose string) string {
	mac := hmac.New(sha256.New, f.key[:])
	mac.Write([]byte(purpose + "." + f.text))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
