package inflight

import (
	"context"
	"sync/atomic"
	"time"
)

// Places counts the requests in flight. Its methods may be called concurrently.
type Places struct {
	limit int64
	taken atomic.Int64
}

func New(limit int) *Places { return &Places{limit: int64(limit)} }

// Held returns the number of places taken.
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

// Place is the place of a request, or none. Its methods are not called concurrently. A nil Place counts nothing.
type Place struct {
	of     *Places // nil while it has none
	queued time.Duration
}

// Queued returns how long the request was queued.
func (p *Place) Queued() time.Duration { return p.queued }

// GiveBack may be called again.
func (p *Place) GiveBack() {
	if p != nil && p.of != nil {
		p.of.taken.Add(-1)
		p.of = nil
	}
}

// Pause gives the place back until resume, which never fails: the request has been admitted.
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

// Queue is Pause for a queued request.
func (p *Place) Queue() (resume func()) {
	begin, resumed := time.Now(), p.Pause()
	return func() {
		if p != nil {
			p.queued += time.Since(begin)
		}
		resumed()
	}
}

// ContextKey is the key of the *Place in a context.
type ContextKey struct{}

// FromContext returns the place of a request, or nil.
func FromContext(ctx context.Context) *Place {
	p, _ := ctx.Value(ContextKey{}).(*Place)
	return p
}
