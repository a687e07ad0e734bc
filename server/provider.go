package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/semaphore"
)

// OIDC is an identity provider to sign in with, and this service as its client (OpenID Connect Core 1.0).
type OIDC struct {
	// Issuer is the provider's address, exactly as it calls itself. The rest is discovered below it when first needed.
	Issuer string
	// ClientID and ClientSecret are what the provider gave this service; a public client has no secret.
	ClientID, ClientSecret string
	// Scopes to ask for, openid among them.
	Scopes []string
	// UsernameClaim is the claim that new users are named after.
	UsernameClaim string
}

const (
	// providerTimeout bounds one request to the provider, providerPatience all that one sign-in asks of it.
	providerTimeout  = 5 * time.Second
	providerPatience = 10 * time.Second
	// maxAnswer bounds an answer of the provider, in bytes.
	maxAnswer = 1 << 20
	// maxAsking is how many requests to the provider may be on their way at once. More sign-ins fail: a provider that
	// hangs must not take the rest of the service along.
	maxAsking = 64
)

// provider speaks with the identity provider. It keeps what it discovered, and nothing about any sign-in.
type provider struct {
	OIDC
	redirect string // the address of the callback
	now      func() time.Time
	http     *http.Client
	found    atomic.Pointer[discovered]
}

// discovered is what the provider publishes about itself.
type discovered struct {
	*oidc.Provider
	// client is shared by all sign-ins: it remembers how the token endpoint wants to be told the secret.
	client oauth2.Config
	// sendsIssuer means that every callback names the issuer (RFC 9207 section 3).
	sendsIssuer bool
}

// identity is somebody whom the provider vouches for.
type identity struct {
	subject  string
	username string // as the provider has it, "" when it has none
}

func newProvider(o OIDC, baseURL string, now func() time.Time) *provider {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	return &provider{
		OIDC: o, redirect: baseURL + "/sign-in/callback", now: now,
		http: &http.Client{
			Transport: &boundedTransport{transport, semaphore.NewWeighted(maxAsking)},
			Timeout:   providerTimeout,
			// Nothing that is asked of the provider has a reason to move, least of all a code with our secret.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// host is the provider's name for people.
func (p *provider) host() string {
	u, err := url.Parse(p.Issuer)
	if err != nil {
		return p.Issuer
	}
	return u.Host
}

// discover reads the provider's metadata (OpenID Connect Discovery 1.0 section 4), once. It returns errProvider.
func (p *provider) discover(ctx context.Context) (*discovered, error) {
	if d := p.found.Load(); d != nil {
		return d, nil
	}
	metadata, err := oidc.NewProvider(oidc.ClientContext(ctx, p.http), p.Issuer) // refuses another issuer
	if err != nil {
		return nil, providerFault("discovery", err)
	}
	var more struct {
		JWKS        string `json:"jwks_uri"`
		SendsIssuer bool   `json:"authorization_response_iss_parameter_supported"`
	}
	if err := metadata.Claims(&more); err != nil {
		return nil, providerFault("discovery", err)
	}
	endpoint := metadata.Endpoint()
	for _, address := range []string{endpoint.AuthURL, endpoint.TokenURL, more.JWKS} {
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || strings.HasPrefix(p.Issuer, "https:")) {
			return nil, providerFault("discovery", errors.New("an endpoint is missing or not https"))
		}
	}
	d := &discovered{metadata, oauth2.Config{
		ClientID: p.ClientID, ClientSecret: p.ClientSecret, Endpoint: endpoint, RedirectURL: p.redirect, Scopes: p.Scopes,
	}, more.SendsIssuer}
	p.found.Store(d)
	return d, nil
}

// authorizeURL is where the browser goes to sign in (OpenID Connect Core 1.0 section 3.1.2.1, RFC 7636 section 4.3).
func (p *provider) authorizeURL(ctx context.Context, a attempt) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, providerPatience)
	defer cancel()
	d, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	return d.client.AuthCodeURL(a.state(), oidc.Nonce(a.nonce()), oauth2.S256ChallengeOption(a.verifier())), nil
}

// redeem turns the provider's answer to an attempt, whose state the caller has checked, into who signed in. It returns
// errSignIn for an answer that belongs to another attempt or provider or was used before, errDenied for one that
// says no, and errProvider.
func (p *provider) redeem(ctx context.Context, a attempt, answer url.Values) (identity, error) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.http), providerPatience)
	defer cancel()
	d, err := p.discover(ctx)
	if err != nil {
		return identity{}, err
	}
	// An answer of another provider, fetched with this one's secret, is how mix-up works (RFC 9207 section 2.4).
	if issuer := answer.Get("iss"); issuer != p.Issuer && (issuer != "" || d.sendsIssuer) {
		return identity{}, fmt.Errorf("%w: answer of another issuer", errSignIn)
	}
	switch code := answer.Get("error"); {
	case code == "access_denied": // RFC 6749 section 4.1.2.1
		return identity{}, errDenied
	case code != "":
		return identity{}, providerFault("authorization", &oauth2.RetrieveError{ErrorCode: code})
	case answer.Get("code") == "":
		return identity{}, fmt.Errorf("%w: answer without a code", errSignIn)
	}

	tokens, err := d.client.Exchange(ctx, answer.Get("code"), oauth2.VerifierOption(a.verifier()))
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) && refused.ErrorCode == "invalid_grant" { // used, expired, or begun elsewhere
		return identity{}, fmt.Errorf("%w: code refused", errSignIn)
	}
	if err != nil {
		return identity{}, providerFault("token", err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	token, err := d.VerifierContext(ctx, &oidc.Config{ClientID: p.ClientID, Now: p.now}).Verify(ctx, raw)
	if err != nil {
		return identity{}, providerFault("ID token", err)
	}
	if token.Nonce != a.nonce() { // somebody else's code (RFC 9700 section 4.5.3.2)
		return identity{}, fmt.Errorf("%w: nonce of another attempt", errSignIn)
	}
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return identity{}, providerFault("ID token", err)
	}
	// Made for us, and not merely among others for us (OpenID Connect Core 1.0 section 3.1.3.7).
	if party, named := claims["azp"]; named && party != p.ClientID || !named && len(token.Audience) > 1 {
		return identity{}, providerFault("ID token", errors.New("authorized party is another client"))
	}
	if !isSubject(token.Subject) {
		return identity{}, providerFault("ID token", errors.New("sub is not 1 to 255 ASCII characters"))
	}
	username, _ := claims[p.UsernameClaim].(string)
	if username == "" && d.UserInfoEndpoint() != "" {
		username, err = p.askUsername(ctx, d, tokens, token.Subject)
	}
	return identity{token.Subject, username}, err
}

// askUsername asks the UserInfo endpoint, where some providers keep all that scopes ask for (OpenID Connect Core 1.0
// section 5.4).
func (p *provider) askUsername(ctx context.Context, d *discovered, tokens *oauth2.Token, subject string) (string, error) {
	info, err := d.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
	if err != nil {
		return "", providerFault("UserInfo", err)
	}
	var claims map[string]any
	if err := info.Claims(&claims); err != nil || info.Subject != subject { // section 5.3.2: else not to be used
		return "", providerFault("UserInfo", errors.New("claims of another subject"))
	}
	username, _ := claims[p.UsernameClaim].(string)
	return username, nil
}

// isSubject tells whether sub is what OpenID Connect Core 1.0 section 2 allows.
func isSubject(sub string) bool {
	return sub != "" && len(sub) <= 255 && !strings.ContainsFunc(sub, func(r rune) bool { return r < ' ' || r > '~' })
}

// providerFault is errProvider with what the log may have of err. What the provider answered is left out where it
// could repeat a code or a token.
func providerFault(step string, err error) error {
	if errors.Is(err, context.Canceled) { // the browser went away: nobody's fault
		return err
	}
	var refused *oauth2.RetrieveError
	var network *url.Error
	why := err.Error()
	switch {
	case errors.As(err, &refused):
		why = fmt.Sprintf("refused with %.60q", refused.ErrorCode)
	case errors.As(err, &network):
		why = network.Err.Error()
	case step == "UserInfo":
		why = "no usable answer"
	}
	return fmt.Errorf("%w: %s: %.200s", errProvider, step, why)
}

// boundedTransport reads answers whole, up to maxAnswer, and asks no more at once than there are places.
type boundedTransport struct {
	next   http.RoundTripper
	places *semaphore.Weighted
}

func (t *boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !t.places.TryAcquire(1) {
		return nil, errors.New("too many sign-ins at once")
	}
	defer t.places.Release(1)
	res, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = errors.New("answer too large")
	}
	if err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}
