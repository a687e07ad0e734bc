package oidc

import (
	"context"
	"errors"
)

// Check asks the provider for what a sign-in needs of it beforehand: metadata that this service can work with, and keys that verify ID
// tokens, of which it returns how many there are. It returns ErrProvider.
func (p *Provider) Check(ctx context.Context) (keys int, err error) {
	m, err := p.fetchMetadata()
	if err != nil {
		return 0, err
	}
	usable, err := m.keys.fetch(ctx)
	if err == nil && len(usable) == 0 {
		err = errors.New("none is published that can be used")
	}
	if err != nil {
		return 0, wrapErr("keys", err)
	}
	return len(usable), nil
}
