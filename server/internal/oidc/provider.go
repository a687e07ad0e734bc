package oidc

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"worldevents/server/internal/ledger"
)

var (
	// ErrFlow means that a callback does not belong to a flow of this browser, or that the flow has expired or ended.
	ErrFlow = errors.New("not a sign-in under way")
	// ErrDenied means that the user or the provider has refused to sign in.
	ErrDenied = errors.New("sign-in denied")
	// ErrLate means that the user took longer than the provider's page lasts. One more sign-in may begin by itself.
	ErrLate = errors.New("the provider's page has expired")
	// ErrProvider means that the provider did not respond, or not as it must.
	ErrProvider = errors.New("identity provider failed")
	// ErrBusy means that too many sign-ins are at the provider. Nothing was sent to it, and the flow may be tried again.
	ErrBusy = errors.New("too many sign-ins at once")
)

// Config is an identity provider to sign in with, and this service as its client.
type Config struct {
	// Issuer is the provider's URL, exactly as it calls itself. The rest is discovered below it when first needed.
	Issuer string
	// ClientID and ClientSecret are what the provider gave this service; a public client has no secret.
	ClientID, ClientSecret string
	// Scopes to ask for, openid among them.
	Scopes []string
	// UsernameClaim is the claim that new users are named after.
	UsernameClaim string
	// Log is told what the provider gets wrong where a sign-in goes on; nil means nobody.
	Log *slog.Logger
	// Timeout bounds one request to the provider; 0 is five seconds. A sign-in waits for a place up to twice as long, and
	// for everything together up to four times.
	Timeout time.Duration
}

// Provider is the identity provider. Its methods may be called concurrently.
type Provider struct {
	config      Config
	redirectURL string
	keys        atomic.Pointer[[]flowKey]
	now         func() time.Time
	client      *http.Client
	places      *ledger.Ledger[string]   // by client
	requests    singleflight.Group       // for metadata
	latest      atomic.Pointer[metadata] // nil until the first success
	secret      atomic.Pointer[string]   // of this service as the provider's client, "" for a public one
	worked      atomic.Int32             // the oauth2.AuthStyle of the last token response
}

// Identity is a user for whom the provider vouches. Issuer and Subject together say who it is.
type Identity struct {
	Issuer, Subject string
	// Username is the claim that Config names, "" if there is none.
	Username string
	// SID is the session at the provider (OpenID Connect Back-Channel Logout 1.0 section 2.1): 1 to 255 ASCII characters, or "" for none.
	SID string
}

// New returns a provider, without a request to it. The redirectURL is where the provider sends browsers back to. Of the
// secrets, one at least, the first begins flows and all end them; now is the clock.
func New(c Config, redirectURL string, secrets [][]byte, now func() time.Time) *Provider {
	c.Timeout, c.Log = cmp.Or(c.Timeout, 5*time.Second), cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	p := &Provider{
		config: c, redirectURL: redirectURL, now: now,
		client: &http.Client{
			Transport: boundedTransport{http.DefaultTransport.(*http.Transport).Clone()},
			Timeout:   c.Timeout,
			// The provider has no reason to redirect these requests, least of all one with a code and our secret.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		places: newPlaces(),
	}
	p.SetClientSecret(c.ClientSecret)
	p.SetKeys(secrets)
	return p
}

// SetClientSecret replaces the secret of Config, for all token requests that begin afterwards.
func (p *Provider) SetClientSecret(secret string) { p.secret.Store(&secret) }

// SetKeys replaces the secrets of New. A flow that began with one that is no longer among them has ended.
func (p *Provider) SetKeys(secrets [][]byte) {
	var keys []flowKey
	for _, secret := range secrets {
		keys = append(keys, newFlowKey(secret, p.config.Issuer))
	}
	p.keys.Store(&keys)
}

// AuthCodeURL returns where to send the browser (OpenID Connect Core 1.0 section 3.1.2.1, RFC 7636 section 4.3). The
// client is the address that shares the places. It returns ErrProvider or ErrBusy.
func (p *Provider) AuthCodeURL(ctx context.Context, client string, f Flow) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*p.config.Timeout)
	defer cancel()
	m, err := p.discover(ctx, client)
	if err != nil {
		return "", err
	}
	return p.oauth(m).AuthCodeURL(f.state(), oauth2.SetAuthURLParam("nonce", f.nonce()), oauth2.S256ChallengeOption(f.verifier())), nil
}

// oauth is this service as the provider's client.
func (p *Provider) oauth(m *metadata) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.config.ClientID, ClientSecret: *p.secret.Load(), Endpoint: m.endpoint, RedirectURL: p.redirectURL, Scopes: p.config.Scopes,
	}
}
