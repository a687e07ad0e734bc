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
	// ErrFlow means that the flow of a callback is not in this browser, or has expired or ended.
	ErrFlow = errors.New("not a sign-in under way")
	// ErrDenied means that the user or the provider refused the sign-in.
	ErrDenied = errors.New("sign-in denied")
	// ErrProvider means that the provider gave no valid response.
	ErrProvider = errors.New("identity provider failed")
	// ErrBusy means that too many sign-ins are at the provider. The flow may be retried: nothing was sent.
	ErrBusy = errors.New("too many sign-ins at once")
)

// Config is an identity provider, and this service as its client.
type Config struct {
	// Issuer is the provider's URL, exactly as it calls itself. Discovery below it, on first use, has the rest.
	Issuer                 string
	ClientID, ClientSecret string   // a public client has no secret
	Scopes                 []string // openid among them
	// UsernameClaim is the claim with the names of new users.
	UsernameClaim string
	// Log gets faults of the provider that do not end a sign-in; nil means nobody.
	Log *slog.Logger
	// Timeout bounds one request to the provider; 0 is five seconds. A wait for a place takes up to twice as long, a sign-in four times.
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
	secret      atomic.Pointer[string]   // "" for a public client
	oauthClient atomic.Pointer[oauth2.Config]
}

// Identity is a user of the provider, identified by Issuer and Subject.
type Identity struct {
	Issuer, Subject string
	// Username is from the claim in Config, or "".
	Username string
	// SID is the session at the provider (OpenID Connect Back-Channel Logout 1.0 section 2.1): 1 to 255 ASCII characters, or "".
	SID string
}

// New returns a provider, without a request to it. It sends browsers back to redirectURL. The first of the secrets, at least one, begins
// flows, and all finish them; now is the clock.
func New(c Config, redirectURL string, secrets [][]byte, now func() time.Time) *Provider {
	c.Timeout, c.Log = cmp.Or(c.Timeout, 5*time.Second), cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	p := &Provider{
		config: c, redirectURL: redirectURL, now: now,
		client: &http.Client{
			Transport: boundedTransport{http.DefaultTransport.(*http.Transport).Clone()},
			Timeout:   c.Timeout,
			// A redirect could lead a code and our secret elsewhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		places: newPlaces(),
	}
	p.SetClientSecret(c.ClientSecret)
	p.SetKeys(secrets)
	return p
}

// SetClientSecret replaces the secret for later token requests.
func (p *Provider) SetClientSecret(secret string) { p.secret.Store(&secret) }

// SetKeys replaces the secrets of New. Flows of removed ones have ended.
func (p *Provider) SetKeys(secrets [][]byte) {
	var keys []flowKey
	for _, secret := range secrets {
		keys = append(keys, newFlowKey(secret, p.config.Issuer))
	}
	p.keys.Store(&keys)
}

// AuthCodeURL returns the target for the browser (OpenID Connect Core 1.0 section 3.1.2.1, RFC 7636 section 4.3). client is the address
// that shares the places. It returns ErrProvider or ErrBusy.
func (p *Provider) AuthCodeURL(ctx context.Context, client string, f Flow) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*p.config.Timeout)
	defer cancel()
	m, err := p.discover(ctx, client)
	if err != nil {
		return "", err
	}
	return p.oauth(m).AuthCodeURL(f.state(), oauth2.SetAuthURLParam("nonce", f.nonce()), oauth2.S256ChallengeOption(f.verifier())), nil
}

// oauth returns the client at the endpoint. The last one is kept, since it remembers which AuthStyle worked.
func (p *Provider) oauth(m *metadata) *oauth2.Config {
	last, secret := p.oauthClient.Load(), *p.secret.Load()
	if last != nil && last.Endpoint == m.endpoint && last.ClientSecret == secret {
		return last
	}
	client := &oauth2.Config{
		ClientID: p.config.ClientID, ClientSecret: secret, Endpoint: m.endpoint, RedirectURL: p.redirectURL, Scopes: p.config.Scopes,
	}
	p.oauthClient.Store(client)
	return client
}
