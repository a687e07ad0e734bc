// Package oidc signs users in with an identity provider: it is the relying party of OpenID Connect Core 1.0, with the
// authorization code flow and PKCE.
//
// Nothing about a sign-in is kept here. A Flow lives in a cookie of the browser that began it, and everything that must
// match at its end is derived from that text. So any instance can end what another began, and no callback counts in
// another browser.
//
// The provider is trusted with users' names and with nothing else. What it sends is bounded in size and time, a
// provider that hangs cannot hold more than maxConcurrent requests, and errors repeat nothing that it sent where a code
// or a token could be in it.
package oidc

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	goidc "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/semaphore"
)

const (
	// requestTimeout bounds one request to the provider.
	requestTimeout = 5 * time.Second
	// flowTimeout bounds all requests to the provider for one call.
	flowTimeout = 10 * time.Second
)

var (
	// ErrFlow means that a callback does not belong to a flow of this browser, or that the flow has expired or ended.
	ErrFlow = errors.New("not a sign-in under way")
	// ErrDenied means that the user or the provider has refused to sign in.
	ErrDenied = errors.New("sign-in denied")
	// ErrProvider means that the provider did not respond, or not as it must.
	ErrProvider = errors.New("identity provider failed")
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
}

// Provider is the identity provider. It keeps the metadata once discovered. Its methods may be called concurrently.
type Provider struct {
	config      Config
	redirectURL string
	now         func() time.Time
	client      *http.Client
	discovered  atomic.Pointer[metadata]
}

// metadata is what the provider publishes about itself.
type metadata struct {
	*goidc.Provider
	// oauth is shared by all flows: it remembers how the token endpoint expects the secret.
	oauth oauth2.Config
	// issParamSupported means that every callback names the issuer (RFC 9207 section 3).
	issParamSupported bool
}

// Identity is a user for whom the provider vouches. Issuer and Subject together say who it is.
type Identity struct {
	Issuer, Subject string
	// Username is the claim that Config names, "" if there is none.
	Username string
}

// New returns a provider, without a request to it. The redirectURL is where the provider sends browsers back to; now is
// the clock.
func New(c Config, redirectURL string, now func() time.Time) *Provider {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	return &Provider{
		config: c, redirectURL: redirectURL, now: now,
		client: &http.Client{
			Transport: &boundedTransport{transport, semaphore.NewWeighted(maxConcurrent)},
			Timeout:   requestTimeout,
			// The provider has no reason to redirect these requests, least of all one with a code and our secret.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Host returns the provider's host: its name on pages.
func (p *Provider) Host() string {
	u, err := url.Parse(p.config.Issuer)
	if err != nil {
		return p.config.Issuer
	}
	return u.Host
}

// AuthCodeURL returns where to send the browser (OpenID Connect Core 1.0 section 3.1.2.1, RFC 7636 section 4.3). It
// returns ErrProvider.
func (p *Provider) AuthCodeURL(ctx context.Context, f Flow) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, flowTimeout)
	defer cancel()
	m, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	return m.oauth.AuthCodeURL(f.state(), goidc.Nonce(f.nonce()), oauth2.S256ChallengeOption(f.verifier())), nil
}

// discover returns the provider's metadata (OpenID Connect Discovery 1.0 section 4). It asks until it has succeeded
// once. It returns ErrProvider.
func (p *Provider) discover(ctx context.Context) (*metadata, error) {
	if m := p.discovered.Load(); m != nil {
		return m, nil
	}
	provider, err := goidc.NewProvider(goidc.ClientContext(ctx, p.client), p.config.Issuer) // refuses another issuer
	if err != nil {
		return nil, wrapErr("discovery", err)
	}
	var more struct {
		JWKS              string `json:"jwks_uri"`
		IssParamSupported bool   `json:"authorization_response_iss_parameter_supported"`
	}
	if err := provider.Claims(&more); err != nil {
		return nil, wrapErr("discovery", err)
	}
	endpoint := provider.Endpoint()
	for _, address := range []string{endpoint.AuthURL, endpoint.TokenURL, more.JWKS} {
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || strings.HasPrefix(p.config.Issuer, "https:")) {
			return nil, wrapErr("discovery", errors.New("an endpoint is missing or not https"))
		}
	}
	m := &metadata{provider, oauth2.Config{
		ClientID: p.config.ClientID, ClientSecret: p.config.ClientSecret,
		Endpoint: endpoint, RedirectURL: p.redirectURL, Scopes: p.config.Scopes,
	}, more.IssParamSupported}
	p.discovered.Store(m)
	return m, nil
}
