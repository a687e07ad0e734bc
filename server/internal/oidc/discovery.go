package oidc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
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
	endpoint oauth2.Endpoint
	userInfo string // "" if there is none
	// methods are those of RFC 8414 section 2 by which clients authenticate, nil if it does not say.
	methods []string
	keys    *keySet
	// issParamSupported means that every callback names the issuer (RFC 9207 section 3).
	issParamSupported bool
}

// discovery keeps the metadata. One request for it at a time is under way, whose result all who wait share.
type discovery struct {
	requests singleflight.Group

	mu      sync.Mutex
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
		d.latest = m
	}
	if d.latest != nil {
		return d.latest, nil
	}
	return nil, err
}

// signatures are the algorithms that ID tokens may be signed with (RFC 7518 section 3.1, RFC 8037 section 3.1): those with a public key.
var signatures = []string{"RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA"}

// fetchMetadata asks the provider. It returns ErrProvider, also where no sign-in can work.
func (p *Provider) fetchMetadata() (*metadata, error) {
	text, _, err := p.get(context.Background(), strings.TrimSuffix(p.config.Issuer, "/")+"/.well-known/openid-configuration", nil)
	if err != nil {
		return nil, wrapErr("discovery", err)
	}
	c, err := parseClaims(text)
	if err == nil && c.text("issuer") != p.config.Issuer {
		err = fmt.Errorf("issuer is %s", c["issuer"])
	}
	m := &metadata{
		endpoint: oauth2.Endpoint{AuthURL: c.text("authorization_endpoint"), TokenURL: c.text("token_endpoint")},
		userInfo: c.text("userinfo_endpoint"), methods: c.texts("token_endpoint_auth_methods_supported"),
	}
	jwks := c.text("jwks_uri")
	for _, address := range []string{m.endpoint.AuthURL, m.endpoint.TokenURL, jwks, cmp.Or(m.userInfo, jwks)} {
		u, parseErr := url.Parse(address)
		if err == nil && (parseErr != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || strings.HasPrefix(p.config.Issuer, "https:"))) {
			err = errors.New("an endpoint is missing or not https")
		}
	}
	if says := c["authorization_response_iss_parameter_supported"]; err == nil && says != nil {
		err = json.Unmarshal(says, &m.issParamSupported) // which guards against mix-up, so that nothing is guessed
	}
	if err == nil {
		_, err = p.authStyles(m.methods)
	}
	algorithms := c.texts("id_token_signing_alg_values_supported")
	if algorithms == nil {
		algorithms = []string{"RS256"} // which every provider supports (OpenID Connect Core 1.0 section 15.1)
	}
	usable := slices.DeleteFunc(slices.Clone(algorithms), func(name string) bool { return !slices.Contains(signatures, name) })
	if err == nil && len(usable) == 0 {
		err = fmt.Errorf("it signs ID tokens with %s, none of %v", strings.Join(algorithms, ", "), signatures)
	}
	if err != nil {
		return nil, wrapErr("discovery", err)
	}
	m.keys = newKeySet(usable, func(ctx context.Context) ([]jose.JSONWebKey, error) { return p.fetchKeys(ctx, jwks, usable) })
	return m, nil
}

// authStyles returns how the client may authenticate, in the order to try, at a provider that takes these methods: nil where it does
// not say, which means the first (OpenID Connect Discovery 1.0 section 3), and not every provider that says nothing means it. A public
// client sends its id in the body (RFC 6749 section 3.2.1), with the header only where nothing else is taken.
func (p *Provider) authStyles(methods []string) ([]oauth2.AuthStyle, error) {
	const inBody, inHeader = oauth2.AuthStyleInParams, oauth2.AuthStyleInHeader
	public := *p.secret.Load() == ""
	switch {
	case methods == nil && (public || p.worked.Load() == int32(inBody)):
		return []oauth2.AuthStyle{inBody, inHeader}, nil
	case methods == nil:
		return []oauth2.AuthStyle{inHeader, inBody}, nil
	case slices.Contains(methods, "client_secret_post"), public && slices.Contains(methods, "none"):
		return []oauth2.AuthStyle{inBody}, nil
	case slices.Contains(methods, "client_secret_basic"):
		return []oauth2.AuthStyle{inHeader}, nil
	}
	return nil, fmt.Errorf("it takes clients that authenticate by %s, and none by client_secret_post or client_secret_basic", strings.Join(methods, ", "))
}
