package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"golang.org/x/oauth2"
)

const (
	metadataTTL   = time.Hour
	retryInterval = 10 * time.Second // after a failure at the provider, which may have new endpoints
)

// metadata is the published metadata of the provider.
type metadata struct {
	endpoint oauth2.Endpoint
	userInfo string // or ""
	keys     *keySet
	// issParamSupported means that every callback names the issuer (RFC 9207 section 3).
	issParamSupported bool

	due atomic.Int64 // the next request, in Unix nanoseconds
}

// discover returns the provider's metadata (OpenID Connect Discovery 1.0 section 4), the last usable one. It returns ErrProvider if there
// never was any, ErrBusy, and the error of ctx.
func (p *Provider) discover(ctx context.Context, client string) (*metadata, error) {
	if m := p.current(); m != nil {
		return m, nil
	}
	leave, err := p.enter(ctx, client)
	if err != nil {
		return nil, err
	}
	defer leave()
	// All callers share one request, which goes on without the first browser.
	shared := p.requests.DoChan("", func() (any, error) { return p.refresh() })
	select {
	case result := <-shared:
		m, _ := result.Val.(*metadata)
		return m, result.Err
	case <-ctx.Done():
		return nil, wrapErr("discovery", ctx.Err())
	}
}

// current returns the metadata, or nil if it is due to be fetched.
func (p *Provider) current() *metadata {
	if m := p.latest.Load(); m != nil && p.now().UnixNano() < m.due.Load() {
		return m
	}
	return nil
}

// refresh replaces the metadata, or keeps it after a failure.
func (p *Provider) refresh() (*metadata, error) {
	if m := p.current(); m != nil {
		return m, nil // just replaced
	}
	now, ttl, old := p.now(), metadataTTL, p.latest.Load()
	m, err := p.fetchMetadata()
	if err != nil && old != nil {
		m, ttl, err = old, retryInterval, nil
	}
	if err == nil {
		m.due.Store(now.Add(ttl).UnixNano())
		p.latest.Store(m)
	}
	return m, err
}

// fetchMetadata returns ErrProvider also for metadata with which no sign-in can work.
func (p *Provider) fetchMetadata() (*metadata, error) {
	c, err := p.get(context.Background(), strings.TrimSuffix(p.config.Issuer, "/")+"/.well-known/openid-configuration", nil)
	m := &metadata{
		endpoint: oauth2.Endpoint{AuthURL: c.text("authorization_endpoint"), TokenURL: c.text("token_endpoint")},
		userInfo: c.text("userinfo_endpoint"),
	}
	if !p.isEndpoint(m.userInfo) { // the ID token may have names
		m.userInfo = ""
	}
	signs := c.texts("id_token_signing_alg_values_supported")
	if signs == nil {
		signs = []string{"RS256"} // which every provider supports (OpenID Connect Core 1.0 section 15.1)
	}
	var algorithms []string
	for _, algorithm := range publicKeyAlgorithms {
		if slices.Contains(signs, algorithm) {
			algorithms = append(algorithms, algorithm)
		}
	}
	jwks, namesItself := c.text("jwks_uri"), c["authorization_response_iss_parameter_supported"]
	switch {
	case err != nil:
	case c.text("issuer") != p.config.Issuer:
		err = fmt.Errorf("issuer is %s", c["issuer"])
	case !p.isEndpoint(m.endpoint.AuthURL) || !p.isEndpoint(m.endpoint.TokenURL) || !p.isEndpoint(jwks):
		err = errors.New("an endpoint is missing or not https")
	case namesItself != nil && json.Unmarshal(namesItself, &m.issParamSupported) != nil: // not guessed: it guards against mix-up
		err = fmt.Errorf("authorization_response_iss_parameter_supported is %s", namesItself)
	case algorithms == nil:
		err = fmt.Errorf("it signs ID tokens with %s, none of which can be used", strings.Join(signs, ", "))
	default:
		m.endpoint.AuthStyle, err = authStyle(c.texts("token_endpoint_auth_methods_supported"), *p.secret.Load() == "")
	}
	if err != nil {
		return nil, wrapErr("discovery", err)
	}
	m.keys = newKeySet(algorithms, func(ctx context.Context) ([]jose.JSONWebKey, error) { return p.fetchKeys(ctx, jwks, algorithms) })
	return m, nil
}

// isEndpoint reports whether address may be an endpoint. With an https issuer all have https.
func (p *Provider) isEndpoint(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && !strings.HasPrefix(p.config.Issuer, "https:"))
}

// authStyle returns how the client authenticates by one of methods (RFC 8414 section 2), nil if unknown. AuthStyleAutoDetect tries the
// header, the default (OpenID Connect Discovery 1.0 section 3), then the body. A public client is in the body (RFC 6749 section 3.2.1).
func authStyle(methods []string, public bool) (oauth2.AuthStyle, error) {
	basic, post := slices.Contains(methods, "client_secret_basic"), slices.Contains(methods, "client_secret_post")
	switch {
	case methods != nil && !basic && !post && !(public && slices.Contains(methods, "none")):
		return 0, fmt.Errorf("it takes clients that authenticate by %s, and none by client_secret_post or client_secret_basic", strings.Join(methods, ", "))
	case public, post && !basic:
		return oauth2.AuthStyleInParams, nil
	case basic && !post:
		return oauth2.AuthStyleInHeader, nil
	}
	return oauth2.AuthStyleAutoDetect, nil
}

// Check fetches what a sign-in needs: usable metadata and keys. It returns the number of keys, or ErrProvider.
func (p *Provider) Check(ctx context.Context) (keys int, err error) {
	m, err := p.fetchMetadata()
	if err != nil {
		return 0, err
	}
	usable, err := m.keys.fetch(ctx)
	if err == nil && len(usable) == 0 {
		err = errors.New("no usable one is published")
	}
	if err != nil {
		return 0, wrapErr("keys", err)
	}
	return len(usable), nil
}
