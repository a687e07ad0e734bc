package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	goidc "github.com/coreos/go-oidc/v3/oidc"
)

// Check asks the provider for what a sign-in needs of it beforehand: its metadata, and a key that verifies ID tokens. It
// returns ErrProvider.
func (p *Provider) Check(ctx context.Context) error {
	m, err := p.fetchMetadata()
	if err != nil {
		return err
	}
	var published struct {
		JWKS string `json:"jwks_uri"`
	}
	if err := m.Claims(&published); err != nil {
		return wrapErr("discovery", err)
	}
	r, err := http.NewRequestWithContext(goidc.ClientContext(ctx, p.client), http.MethodGet, published.JWKS, nil)
	if err != nil {
		return wrapErr("keys", err)
	}
	res, err := p.client.Do(r)
	if err != nil {
		return wrapErr("keys", err)
	}
	defer res.Body.Close()
	var keys struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.NewDecoder(res.Body).Decode(&keys); err != nil {
		return wrapErr("keys", err)
	}
	if len(keys.Keys) == 0 {
		return wrapErr("keys", errors.New("none are published"))
	}
	return nil
}
