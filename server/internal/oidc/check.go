package oidc

import (
	"context"
	"errors"
)

// Check asks the provider for what a sign-in needs of it beforehand: its metadata, and a key that verifies ID tokens. It
// returns ErrProvider.
func (p *Provider) Check(ctx context.Context) error {
	m, err := p.fetchMetadata()
	if err != nil {
		return err
	}
	keys, err := p.fetchKeys(ctx, m.jwks)
	if err == nil && len(keys) == 0 {
		err = errors.New("none is published that can be used")
	}
	if err != nil {
		return wrapErr("keys", err)
	}
	return nil
}
