package oidc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
)

// Check asks the provider for what a sign-in needs of it beforehand: its metadata, and a key that verifies ID tokens. It
// returns ErrProvider.
func (p *Provider) Check(ctx context.Context) error {
	m, err := p.fetchMetadata()
	if err != nil {
		return err
	}
	text, _, err := p.get(ctx, m.jwks, nil)
	if err != nil {
		return wrapErr("keys", err)
	}
	var keys struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&keys); err != nil {
		return wrapErr("keys", err)
	}
	if len(keys.Keys) == 0 {
		return wrapErr("keys", errors.New("none are published"))
	}
	return nil
}
