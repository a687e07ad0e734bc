package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	goidc "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// Exchange trades the callback's code for the user's identity. The flow must come from ResumeFlow, which has compared
// the state. The client is the address that shares the places. It returns ErrFlow if the flow has expired, or if the
// code or the ID token belongs to another flow or was used before. It returns ErrDenied if the callback says so, ErrReported
// and ErrProvider if it brings another error, ErrProvider, and ErrBusy.
func (p *Provider) Exchange(ctx context.Context, client string, f Flow, callback url.Values) (Identity, error) {
	if !p.now().Before(f.expires) {
		return Identity{}, fmt.Errorf("%w: expired", ErrFlow)
	}
	ctx, cancel := context.WithTimeout(goidc.ClientContext(ctx, p.client), 4*p.config.Timeout)
	defer cancel()
	m, err := p.discover(ctx, client)
	if err != nil {
		return Identity{}, err
	}
	if err := m.checkCallback(callback, p.config.Issuer); err != nil {
		return Identity{}, err
	}
	leave, err := p.enter(ctx, client)
	if err != nil {
		return Identity{}, err
	}
	defer leave()
	identity, err := p.redeem(ctx, m, f, callback.Get("code"))
	if errors.Is(err, ErrProvider) {
		p.suspect(m)
	}
	return identity, err
}

// redeem makes the requests of Exchange and returns its errors.
func (p *Provider) redeem(ctx context.Context, m *metadata, f Flow, code string) (Identity, error) {
	tokens, err := m.oauth.Exchange(ctx, code, oauth2.VerifierOption(f.verifier()))
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) && refused.ErrorCode == "invalid_grant" { // used, expired, or of another flow
		return Identity{}, fmt.Errorf("%w: code refused", ErrFlow)
	}
	if err != nil {
		return Identity{}, wrapErr("token", err)
	}
	subject, username, err := p.verifyIDToken(ctx, m, f, tokens)
	if err != nil {
		return Identity{}, err
	}
	if username == "" && m.UserInfoEndpoint() != "" {
		if username, err = p.userInfoName(ctx, m, tokens, subject); err != nil {
			return Identity{}, err
		}
	}
	return Identity{p.config.Issuer, subject, username}, nil
}

// checkCallback returns nil if the callback is the issuer's and brings a code. It returns ErrFlow, ErrDenied, or ErrReported
// with ErrProvider.
func (m *metadata) checkCallback(callback url.Values, issuer string) error {
	// Sending another provider's code to this one, with our secret, is the mix-up attack (RFC 9207 section 2.4).
	if iss := callback.Get("iss"); iss != issuer && (iss != "" || m.issParamSupported) {
		return fmt.Errorf("%w: callback of another issuer", ErrFlow)
	}
	switch code := callback.Get("error"); {
	case code == "access_denied": // RFC 6749 section 4.1.2.1
		return ErrDenied
	case code != "":
		return fmt.Errorf("%w: %w", ErrReported, wrapErr("authorization", &oauth2.RetrieveError{ErrorCode: code}))
	case callback.Get("code") == "":
		return fmt.Errorf("%w: callback without a code", ErrFlow)
	}
	return nil
}

// verifyIDToken checks the ID token (OpenID Connect Core 1.0 section 3.1.3.7) and returns its subject, and its username
// claim or "". It returns ErrFlow or ErrProvider.
func (p *Provider) verifyIDToken(ctx context.Context, m *metadata, f Flow, tokens *oauth2.Token) (subject, username string, err error) {
	raw, _ := tokens.Extra("id_token").(string)
	token, err := m.verifier.Verify(ctx, raw)
	if err != nil {
		return "", "", wrapErr("ID token", err)
	}
	if token.Nonce != f.nonce() { // somebody else's code was injected (RFC 9700 section 4.5.3.2)
		return "", "", fmt.Errorf("%w: nonce of another flow", ErrFlow)
	}
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return "", "", wrapErr("ID token", err)
	}
	// The token must have been issued to us. One with several audiences, us among them, may be another client's.
	if party, named := claims["azp"]; named && party != p.config.ClientID || !named && len(token.Audience) > 1 {
		return "", "", wrapErr("ID token", errors.New("authorized party is another client"))
	}
	if !validSubject(token.Subject) {
		return "", "", wrapErr("ID token", errors.New("sub is not 1 to 255 ASCII characters"))
	}
	username, _ = claims[p.config.UsernameClaim].(string)
	return token.Subject, username, nil
}

// userInfoName returns the username claim of the UserInfo endpoint, where some providers keep everything that scopes
// ask for (OpenID Connect Core 1.0 section 5.4). It returns "" if there is none, and ErrProvider.
func (p *Provider) userInfoName(ctx context.Context, m *metadata, tokens *oauth2.Token, subject string) (string, error) {
	info, err := m.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
	if err != nil {
		return "", wrapErr("UserInfo", err)
	}
	var claims map[string]any
	if err := info.Claims(&claims); err != nil || info.Subject != subject { // must not be used (section 5.3.2)
		return "", wrapErr("UserInfo", errors.New("claims of another subject"))
	}
	username, _ := claims[p.config.UsernameClaim].(string)
	return username, nil
}

// validSubject reports whether OpenID Connect Core 1.0 section 2 allows sub. Control characters are refused as well.
func validSubject(sub string) bool {
	return sub != "" && len(sub) <= 255 && !strings.ContainsFunc(sub, func(r rune) bool { return r < ' ' || r > '~' })
}

// errorCodes are the codes that a log repeats: those of RFC 6749 sections 4.1.2.1 and 5.2, and of OpenID Connect Core
// 1.0 section 3.1.2.6. Whoever has begun a sign-in can put any other text into a callback.
var errorCodes = []string{
	"invalid_request", "unauthorized_client", "access_denied", "unsupported_response_type", "invalid_scope", "server_error",
	"temporarily_unavailable",
	"invalid_client", "invalid_grant", "unsupported_grant_type",
	"interaction_required", "login_required", "account_selection_required", "consent_required", "invalid_request_uri",
	"invalid_request_object", "request_not_supported", "request_uri_not_supported", "registration_not_supported",
}

// wrapErr returns ErrProvider with what may be logged of err. It leaves out the provider's response wherever that could
// repeat a code or a token, and quotes what a library says of it elsewhere.
func wrapErr(step string, err error) error {
	if errors.Is(err, context.Canceled) { // the browser went away, and the provider is not to blame
		return err
	}
	var refused *oauth2.RetrieveError
	var network *url.Error
	why := fmt.Sprintf("%.200q", err.Error())
	switch {
	case errors.As(err, &refused) && slices.Contains(errorCodes, refused.ErrorCode):
		why = "refused with " + refused.ErrorCode
	case errors.As(err, &refused) && refused.Response != nil:
		why = fmt.Sprintf("HTTP status %d without a registered error code", refused.Response.StatusCode)
	case errors.As(err, &refused):
		why = "refused with an error code that is not registered"
	case errors.As(err, &network):
		why = fmt.Sprintf("%.200q", network.Err.Error())
	case step == "UserInfo":
		why = "unusable response"
	}
	return fmt.Errorf("%w: %s: %s", ErrProvider, step, why)
}
