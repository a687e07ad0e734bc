package oidc

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	goidc "github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"
)

const (
	// metadataTTL is how long metadata is used before the provider is asked again.
	metadataTTL = time.Hour
	// retryInterval replaces it after a failure at the provider, which may have changed its endpoints.
	retryInterval = 10 * time.Second
)

// metadata is what the provider publishes about itself.
type metadata struct {
	*goidc.Provider
	// oauth is shared by all flows: it remembers how the token endpoint expects the secret.
	oauth *oauth2.Config
	// jwks is where the provider's keys are.
	jwks string
	// verifier is shared by all flows: it keeps the provider's keys, and fetches them again for a token that none of
	// them has signed.
	verifier *goidc.IDTokenVerifier
	// logouts are the keys for logout tokens: nobody whose token is refused has those of sign-ins fetched.
	logouts *logoutKeys
	// issParamSupported means that every callback names the issuer (RFC 9207 section 3).
	issParamSupported bool
}

// discovery keeps the metadata. One request for it at a time is under way, whose result all who wait share.
type discovery struct {
	requests singleflight.Group

	mu      sync.Mutex
	secret  string    // of this service as the provider's client, "" for a public one
	latest  *metadata // nil until the first success
	tried   time.Time // when the provider was asked last
	suspect bool      // something has failed at the provider since
}

// discover returns the provider's metadata (OpenID Connect Discovery 1.0 section 4). While the provider does not
// publish any that is usable, it returns the metadata of before. It returns ErrProvider if there never was any, ErrBusy,
// and the error of ctx.
func (p *Provider) discover(ctx context.Context, client string) (*metadata, error) {
	if m := p.current(); m != nil {
		return m, nil
	}
	leave, err := p.enter(ctx, client)
	if err != nil {
		return nil, err
	}
	defer leave()
	// The request goes on when the browser that began it goes away: others wait for it, too.
	shared := p.discovery.requests.DoChan("", func() (any, error) { return p.refresh() })
	select {
	case result := <-shared:
		m, _ := result.Val.(*metadata)
		return m, result.Err
	case <-ctx.Done():
		return nil, wrapErr("discovery", ctx.Err())
	}
}

// current returns the metadata, or nil if the provider must be asked for it.
func (p *Provider) current() *metadata {
	d := &p.discovery
	d.mu.Lock()
	defer d.mu.Unlock()
	ttl := metadataTTL
	if d.suspect {
		ttl = retryInterval
	}
	if p.now().Sub(d.tried) >= ttl {
		return nil
	}
	return d.latest
}

// suspect has the metadata m replaced before its time, because something failed that new metadata may mend.
func (p *Provider) suspect(m *metadata) {
	d := &p.discovery
	d.mu.Lock()
	defer d.mu.Unlock()
	d.suspect = d.suspect || d.latest == m
}

// refresh replaces the metadata. If that fails it returns the metadata of before.
func (p *Provider) refresh() (*metadata, error) {
	if m := p.current(); m != nil {
		return m, nil // somebody has just replaced it
	}
	now := p.now()
	m, err := p.fetchMetadata()
	d := &p.discovery
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tried, d.suspect = now, err != nil
	if err == nil {
		d.latest = p.withSecret(m, d.secret)
	}
	if d.latest != nil {
		return d.latest, nil
	}
	return nil, err
}

// SetClientSecret replaces the secret of Config, for all token requests that begin afterwards.
func (p *Provider) SetClientSecret(secret string) {
	d := &p.discovery
	d.mu.Lock()
	defer d.mu.Unlock()
	d.secret = secret
	if d.latest != nil {
		d.latest = p.withSecret(d.latest, secret)
	}
}

// isUnusable reports whether ID tokens must not be signed with an algorithm. Those without a public key are unusable.
func isUnusable(algorithm string) bool {
	return !slices.Contains([]string{
		goidc.RS256, goidc.RS384, goidc.RS512, goidc.ES256, goidc.ES384, goidc.ES512, goidc.PS256, goidc.PS384, goidc.PS512, goidc.EdDSA,
	}, algorithm)
}

// withSecret returns the same metadata for a client with this secret.
func (p *Provider) withSecret(m *metadata, secret string) *metadata {
	other := *m
	other.oauth = &oauth2.Config{
		ClientID: p.config.ClientID, ClientSecret: secret, Endpoint: m.Endpoint(), RedirectURL: p.redirectURL, Scopes: p.config.Scopes,
	}
	return &other
}

// fetchMetadata asks the provider. What it returns has no oauth, which needs the client's secret. It returns ErrProvider.
func (p *Provider) fetchMetadata() (*metadata, error) {
	client := *p.client // which bounds the time
	client.Transport = usableKeys{client.Transport}
	ctx := goidc.ClientContext(context.Background(), &client)
	provider, err := goidc.NewProvider(ctx, p.config.Issuer) // refuses another issuer
	if err != nil {
		return nil, wrapErr("discovery", err)
	}
	var more struct {
		JWKS              string   `json:"jwks_uri"`
		Algorithms        []string `json:"id_token_signing_alg_values_supported"`
		IssParamSupported bool     `json:"authorization_response_iss_parameter_supported"`
	}
	if err := provider.Claims(&more); err != nil {
		return nil, wrapErr("discovery", err)
	}
	endpoint := provider.Endpoint()
	addresses := []string{endpoint.AuthURL, endpoint.TokenURL, more.JWKS}
	if userInfo := provider.UserInfoEndpoint(); userInfo != "" {
		addresses = append(addresses, userInfo)
	}
	for _, address := range addresses {
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || strings.HasPrefix(p.config.Issuer, "https:")) {
			return nil, wrapErr("discovery", errors.New("an endpoint is missing or not https"))
		}
	}
	algorithms := slices.DeleteFunc(more.Algorithms, isUnusable)
	if len(algorithms) == 0 {
		algorithms = []string{goidc.RS256} // which every provider supports
	}
	return &metadata{
		Provider:          provider,
		jwks:              more.JWKS,
		verifier:          provider.Verifier(&goidc.Config{ClientID: p.config.ClientID, Now: p.now}),
		logouts:           newLogoutKeys(algorithms, func(ctx context.Context) ([]jose.JSONWebKey, error) { return p.fetchKeys(ctx, more.JWKS) }),
		issParamSupported: more.IssParamSupported,
	}, nil
}
