package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"golang.org/x/oauth2"
)

// Exchange trades the callback's code for the user's identity. The flow comes from ResumeFlow, which has compared the state. client is the
// address that shares the places. It returns ErrFlow for an expired flow or the ID token of another, ErrDenied from the
// callback, ErrBusy, and ErrProvider, also for other errors in the callback and refused codes.
func (p *Provider) Exchange(ctx context.Context, client string, f Flow, callback url.Values) (Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*p.config.Timeout)
	defer cancel()
	m, err := p.discover(ctx, client)
	if err != nil {
		return Identity{}, err
	}
	if err := m.checkCallback(callback, p.config.Issuer); err != nil {
		return Identity{}, err
	}
	if !p.now().Before(f.expires) {
		return Identity{}, fmt.Errorf("%w: expired", ErrFlow)
	}
	leave, err := p.enter(ctx, client)
	if err != nil {
		return Identity{}, err
	}
	defer leave()
	identity, err := p.redeem(ctx, m, f, callback.Get("code"))
	if errors.Is(err, ErrProvider) && !errors.Is(err, errCode) { // new metadata may fix it
		m.due.Store(min(m.due.Load(), p.now().Add(retryInterval).UnixNano()))
	}
	return identity, err
}

func (p *Provider) redeem(ctx context.Context, m *metadata, f Flow, code string) (Identity, error) {
	tokens, err := p.oauth(m).Exchange(context.WithValue(ctx, oauth2.HTTPClient, p.client), code, oauth2.VerifierOption(f.verifier()))
	if err != nil {
		return Identity{}, wrapErr("token", err)
	}
	idToken, _ := tokens.Extra("id_token").(string)
	c, err := m.keys.verify(ctx, "", idToken)
	if err == nil {
		err = c.check(p.config.Issuer, p.config.ClientID, f.nonce(), p.now())
	}
	if err != nil {
		return Identity{}, wrapErr("ID token", err)
	}
	who := Identity{p.config.Issuer, c.text("sub"), c.text(p.config.UsernameClaim), c.text("sid")}
	if !validSubject(who.SID) {
		who.SID = ""
	}
	if who.Username == "" && m.userInfo != "" {
		// A known user needs no name of the provider's.
		if who.Username, err = p.userInfoName(ctx, m, tokens, who.Subject); errors.Is(err, context.Canceled) {
			return Identity{}, err
		} else if err != nil {
			p.config.Log.WarnContext(ctx, "the identity provider gave no name", "error", err.Error())
		}
	}
	return who, nil
}

// checkCallback returns nil for a callback with a code of the issuer, or ErrFlow, ErrDenied or ErrProvider.
func (m *metadata) checkCallback(callback url.Values, issuer string) error {
	iss, code := callback.Get("iss"), callback.Get("error")
	switch {
	// To send this provider the code of another with our secret is the mix-up attack (RFC 9207 section 2.4).
	case iss != "" && iss != issuer:
		return wrapErr("authorization", errors.New("the iss of the callback is another issuer"))
	case code == "access_denied": // RFC 6749 section 4.1.2.1
		return ErrDenied
	case iss == "" && m.issParamSupported:
		return wrapErr("authorization", errors.New("the callback has no iss, which the metadata promises"))
	case code != "" && callback.Get("error_description") == "authentication_expired": // Keycloak's
		return fmt.Errorf("%w: expired at the provider", ErrFlow)
	case code != "":
		return wrapErr("authorization", &oauth2.RetrieveError{ErrorCode: code})
	case callback.Get("code") == "":
		return fmt.Errorf("%w: callback without a code", ErrFlow)
	}
	return nil
}

// userInfoName returns the username claim of the UserInfo endpoint, where some providers keep all claims of scopes (OpenID Connect Core 1.0
// section 5.4). It returns "" if there is none, and ErrProvider.
func (p *Provider) userInfoName(ctx context.Context, m *metadata, tokens *oauth2.Token, subject string) (string, error) {
	c, err := p.get(ctx, m.userInfo, tokens)
	if err == nil && c.text("sub") != subject { // must not be used (section 5.3.2)
		err = errors.New("claims of another subject")
	}
	if err != nil {
		return "", wrapErr("UserInfo", err)
	}
	return c.text(p.config.UsernameClaim), nil
}

// errorCodes are the codes that may be logged: those of RFC 6749 sections 4.1.2.1 and 5.2, and of OpenID Connect Core 1.0 section 3.1.2.6.
// Anybody who began a sign-in can put other texts into a callback.
var errorCodes = []string{
	"invalid_request", "unauthorized_client", "access_denied", "unsupported_response_type", "invalid_scope", "server_error",
	"temporarily_unavailable", "invalid_client", "invalid_grant", "unsupported_grant_type",
	"interaction_required", "login_required", "account_selection_required", "consent_required", "invalid_request_uri",
	"invalid_request_object", "request_not_supported", "request_uri_not_supported", "registration_not_supported",
}

// errCode is the ErrProvider for a refused code. Anybody can make one up, so it has no metadata fetched.
var errCode = fmt.Errorf("%w: token: refused with invalid_grant", ErrProvider)

// wrapErr returns ErrProvider with the part of err that may be logged: without the provider's response where that may repeat a code or a
// token. ErrFlow and ErrProvider stay.
func wrapErr(step string, err error) error {
	if errors.Is(err, ErrFlow) || errors.Is(err, ErrProvider) || errors.Is(err, context.Canceled) { // the browser went away
		return err
	}
	var refused *oauth2.RetrieveError
	var network *url.Error
	why := fmt.Sprintf("%.200q", err.Error())
	switch {
	case errors.As(err, &refused) && refused.ErrorCode == "invalid_grant":
		return errCode
	case errors.As(err, &refused) && slices.Contains(errorCodes, refused.ErrorCode):
		why = "refused with " + refused.ErrorCode
	case errors.As(err, &refused) && refused.Response != nil:
		why = fmt.Sprintf("HTTP status %d without a registered error code", refused.Response.StatusCode)
	case errors.As(err, &refused): // by a callback
		why = "refused with an error code that is not registered"
	case errors.As(err, &network):
		why = fmt.Sprintf("%.200q", network.Err.Error())
	case step == "UserInfo":
		why = "unusable response"
	}
	return fmt.Errorf("%w: %s: %s", ErrProvider, step, why)
}
