package models

import (
	"context"
	"time"
)

// Usage sums the time that calls of a Store took. It is for one goroutine at a time.
type Usage struct {
	// Wait is the time that they waited for a connection, or for their turn to write to SQLite.
	Wait time.Duration
	// Work is the time that they took then, the commit included.
	Work time.Duration
}

// UsageKey is the key of a context's value, a *Usage, to which all calls of a Store with that context add their time.
type UsageKey struct{}

// UsageOf returns the Usage of a context, nil if it has none.
func UsageOf(ctx context.Context) *Usage {
	u, _ := ctx.Value(UsageKey{}).(*Usage)
	return u
}

// Add adds the time of other calls. A nil Usage takes no notice.
func (u *Usage) Add(other Usage) {
	if u != nil {
		u.Wait += other.Wait
		u.Work += other.Work
	}
}
