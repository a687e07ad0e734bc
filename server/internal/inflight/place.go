package inflight

import (
	"context"
	"sync/atomic"
	"time"
)

// Places are those of the requests in flight. Its methods may be called concurrently.
type Places struct {
	limit int64
	taken atomic.Int64
}

// New returns places for as many requests.
func New(limit int) *Places { return &Places{limit: int64(limit)} }

// Held returns how many are taken.
func (p *Places) Held() int { return int(p.taken.Load()) }

// Take reports whether there was a place for a request.
func (p *Places) Take(place *Place) bool {
	if p.taken.Add(1) > p.limit {
		p.taken.Add(-1)
		return false
	}
	place.of = p
	return true
}

// Place is the place of a request, or none. A nil Place counts nothing. Its methods are called one after the other.
type Place struct {
	of     *Places // nil while it has none
	queued time.Duration
}

// Queued returns for how long the request was.
func (p *Place) Queued() time.Duration { return p.queued }

// GiveBack gives the place back, if it has not been.
func (p *Place) GiveBack() {
	if p != nil && p.of != nil {
		p.of.taken.Add(-1)
		p.of = nil
	}
}

// Pause gives the place back until resume, which takes one however many are taken: the request has been admitted.
func (p *Place) Pause() (resume func()) {
	if p == nil || p.of == nil {
		return func() {}
	}
	of := p.of
	p.GiveBack()
	return func() {
		of.taken.Add(1)
		p.of = of
	}
}

// Queue is Pause for a request that is queued for its turn.
func (p *Place) Queue() (resume func()) {
	begin, resumed := time.Now(), p.Pause()
	return func() {
		if p != nil {
			p.queued += time.Since(begin)
		}
		resumed()
	}
}

// ContextKey is the key of a context's value, the *Place of its request.
type ContextKey struct{}

// FromContext returns the place of a request, nil if it has none.
func FromContext(ctx context.Context) *Place {
	p, _ := ctx.Value(ContextKey{}).(*Place)
	return p
}
