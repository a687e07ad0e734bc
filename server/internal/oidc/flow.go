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

// FlowTTL is how long a user may take at the provider.
const FlowTTL = 10 * time.Minute

// Flow is a sign-in that is under way: a random secret, when it expires, and where it leads. A cookie of the browser that began it is the only
// place where it is kept. State, nonce and PKCE verifier are MACs of the whole text with a key of the service. So a callback counts in this
// browser alone, nobody else can make a text that counts, and nothing in it can be changed on the way.
type Flow struct {
	// ReturnTo is where the sign-in leads.
	ReturnTo string

	text    string // the cookie's value
	expires time.Time
	again   bool // it has begun by itself, after ErrLate
	key     flowKey
}

// flowKey is the key of the MACs.
type flowKey [sha256.Size]byte

// newFlowKey derives the key from a secret that has other uses. With another issuer it is another key: no code goes to
// a provider that did not issue it, also when the configuration has changed since the flow began.
func newFlowKey(secret []byte, issuer string) flowKey {
	key, err := hkdf.Key(sha256.New, secret, nil, "worldevents sign-in at "+issuer, sha256.Size)
	if err != nil { // no more was asked for than HKDF can give
		panic(err)
	}
	return flowKey(key)
}

// NewFlow begins a sign-in.
func (p *Provider) NewFlow(returnTo string) Flow { return p.newFlow(rand.Text(), returnTo) }

// Repeat begins a sign-in again that ended with ErrLate. Its text has a dash before all else, so that it does not end so again.
func (p *Provider) Repeat(f Flow) Flow { return p.newFlow("-"+rand.Text(), f.ReturnTo) }

func (p *Provider) newFlow(random, returnTo string) Flow {
	text := fmt.Sprintf("%s.%d.%s", random, p.now().Add(FlowTTL).Unix(), base64.RawURLEncoding.EncodeToString([]byte(returnTo)))
	f, _ := parseFlow(text)
	f.key = (*p.keys.Load())[0]
	return f
}

// ResumeFlow returns the flow that cookie keeps, if this service began it and the callback's parameters belong to it. It
// returns ErrFlow with one that has nothing but ReturnTo, of which nobody knows who wrote it. It does not look at the time: a flow that
// has expired is over, but it is this browser's.
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

// parseFlow reads the text of a flow. It does not authenticate the text; comparing state, which is a MAC of it, does.
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
	return Flow{ReturnTo: string(returnTo), text: text, expires: time.Unix(expires, 0), again: strings.HasPrefix(text, "-")}, err == nil
}

// Cookie returns the value of the cookie that keeps the flow. It is secret.
func (f Flow) Cookie() string { return f.text }

// Ended is what the cookie keeps of a flow that is over: where it led. No state belongs to it.
func (f Flow) Ended() string { return f.text[strings.IndexByte(f.text, '.'):] }

// ID tells the flows of a browser from each other. It is no secret.
func (f Flow) ID() string { return FlowID(f.state()) }

// FlowID returns the ID of the flow that a callback's state belongs to.
func FlowID(state string) string { return state[:min(len(state), 8)] }

// state is what the callback must bring back (RFC 6749 section 10.12).
func (f Flow) state() string { return f.derive("state") }

// nonce is what the ID token must carry (OpenID Connect Core 1.0 section 15.5.2).
func (f Flow) nonce() string { return f.derive("nonce") }

// verifier proves to the token endpoint that the client which began the flow ends it (RFC 7636 section 4.1).
func (f Flow) verifier() string { return f.derive("verifier") }

func (f Flow) derive(purpose string) string {
	mac := hmac.New(sha256.New, f.key[:])
	mac.Write([]byte(purpose + "." + f.text))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
