package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"

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
	who, err := p.verifyIDToken(ctx, m, f, tokens)
	if err != nil {
		return Identity{}, err
	}
	if who.Username == "" && m.UserInfoEndpoint() != "" {
		if who.Username, err = p.userInfoName(ctx, m, tokens, who.Subject); err != nil {
			return Identity{}, err
		}
	}
	return who, nil
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

// verifyIDToken checks the ID token (OpenID Connect Core 1.0 section 3.1.3.7) and returns whom it names. It returns ErrFlow or
// ErrProvider.
func (p *Provider) verifyIDToken(ctx context.Context, m *metadata, f Flow, tokens *oauth2.Token) (Identity, error) {
	idToken, _ := tokens.Extra("id_token").(string)
	token, err := m.verifier.Verify(ctx, idToken) // the signature counts; what it says of the claims is checked again
	if err != nil {
		return Identity{}, wrapErr("ID token", err)
	}
	c, err := readClaims(token.Claims)
	if err == nil {
		err = c.check(issuerOf(token, p.config.Issuer), p.config.ClientID, f.nonce(), p.now())
	}
	if errors.Is(err, ErrFlow) {
		return Identity{}, fmt.Errorf("%w: nonce of another flow", err)
	}
	if err != nil {
		return Identity{}, wrapErr("ID token", err)
	}
	who := Identity{p.config.Issuer, c.text("sub"), c.text(p.config.UsernameClaim), c.text("sid")}
	if !validSubject(who.SID) {
		who.SID = ""
	}
	return who, nil
}

// userInfoName returns the username claim of the UserInfo endpoint, where some providers keep everything that scopes
// ask for (OpenID Connect Core 1.0 section 5.4). It returns "" if there is none, and ErrProvider.
func (p *Provider) userInfoName(ctx context.Context, m *metadata, tokens *oauth2.Token, subject string) (string, error) {
	c, err := p.userInfo(ctx, m, tokens)
	if err != nil {
		return "", wrapErr("UserInfo", err)
	}
	if c.text("sub") != subject { // must not be used (section 5.3.2)
		return "", wrapErr("UserInfo", errors.New("claims of another subject"))
	}
	return c.text(p.config.UsernameClaim), nil
}

// userInfo asks the UserInfo endpoint. Go-oidc would, too, but refuses claims of a wrong type that nobody needs.
func (p *Provider) userInfo(ctx context.Context, m *metadata, tokens *oauth2.Token) (claims, error) {
	text, mediaType, err := p.get(ctx, m.UserInfoEndpoint(), tokens)
	if err != nil {
		return nil, err
	}
	if mediaType == "application/jwt" { // signed (section 5.3.2)
		token, err := m.Verifier(&goidc.Config{SkipClientIDCheck: true, SkipExpiryCheck: true, SkipIssuerCheck: true}).Verify(ctx, string(text))
		if err != nil {
			return nil, err
		}
		return readClaims(token.Claims)
	}
	return readClaims(func(v any) error { return json.Unmarshal(text, v) })
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
