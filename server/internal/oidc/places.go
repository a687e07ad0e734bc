package oidc

import (
	"context"

	"worldevents/server/internal/ledger"
)

const (
	// maxConcurrent bounds the sign-ins with requests at the provider, and maxPerClient those of one client.
	maxConcurrent = 64
	maxPerClient  = maxConcurrent / 4
	// maxQueue bounds the waiting ones, so that a hanging provider does not block the service.
	maxQueue = 448
	// minPlaces are for any client, until all are taken.
	minPlaces = 4
)

func newPlaces() *ledger.Ledger[string] {
	return ledger.NewQueue[string](
		ledger.Rule{Limit: maxConcurrent, Share: maxPerClient, Few: minPlaces}, ledger.Rule{Limit: maxQueue, Share: maxQueue / 4, Few: minPlaces})
}

// Held returns the number of sign-ins at the provider.
func (p *Provider) Held() int { return p.places.Held() }

// enter waits for a place at the provider, up to twice its timeout, until leave. It returns ErrBusy, and the error of a cancelled ctx.
func (p *Provider) enter(ctx context.Context, client string) (leave func(), err error) {
	wait, cancel := context.WithTimeout(ctx, 2*p.config.Timeout)
	defer cancel()
	switch err := p.places.Acquire(wait, client); {
	case err == nil:
		return func() { p.places.Release(client, 1) }, nil
	case ctx.Err() == context.Canceled:
		return nil, ctx.Err()
	}
	return nil, ErrBusy
}
