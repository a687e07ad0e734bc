package oidc

import (
	"context"

	"worldevents/server/internal/ledger"
)

const (
	// maxConcurrent is how many sign-ins make requests to the provider at once, and maxPerClient how many of one client.
	maxConcurrent = 64
	maxPerClient  = maxConcurrent / 4
	// maxQueue is how many sign-ins wait to do so, so that a provider which hangs does not take the rest of the service along.
	maxQueue = 448
	// minPlaces is how many any client may have of either, until all are taken.
	minPlaces = 4
)

func newPlaces() *ledger.Ledger[string] {
	return ledger.NewQueue[string](
		ledger.Rule{Limit: maxConcurrent, Share: maxPerClient, Few: minPlaces}, ledger.Rule{Limit: maxQueue, Share: maxQueue / 4, Few: minPlaces})
}

// Held returns how many sign-ins are at the provider.
func (p *Provider) Held() int { return p.places.Held() }

// enter waits for a place at the provider, for twice its timeout at most. The caller must call leave when done with it. It returns
// ErrBusy if too many wait already or if no place came free in time, and the error of ctx if the browser went away.
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
