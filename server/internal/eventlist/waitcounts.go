package eventlist

import "sync/atomic"

// WaitCounts are for metrics.
type WaitCounts struct {
	waiting  func() int
	outcomes [outcomes]atomic.Uint64
	readings [len(causeNames)]atomic.Uint64
}

// outcome is why a wait was over.
type outcome int

const (
	changed outcome = iota
	elapsed
	full
	stopped
	revoked
	gone
	interrupted
	outcomes
)

// outcomeNames are those of metrics.
var outcomeNames = [outcomes]string{"changed", "elapsed", "full", "stopped", "revoked", "gone", "interrupted"}

// Waiting returns the number of requests that wait.
func (c *WaitCounts) Waiting() int { return c.waiting() }

// Outcomes returns why waits were over, by name.
func (c *WaitCounts) Outcomes() map[string]*atomic.Uint64 {
	all := make(map[string]*atomic.Uint64)
	for i, name := range outcomeNames {
		all[name] = &c.outcomes[i]
	}
	return all
}

// Readings returns how many readings there were for those who wait, by the name of their cause.
func (c *WaitCounts) Readings() map[string]*atomic.Uint64 {
	all := make(map[string]*atomic.Uint64)
	for i, name := range causeNames {
		if name != "" {
			all[name] = &c.readings[i]
		}
	}
	return all
}

// WaitCounts returns the counts of l.
func (l *Lists) WaitCounts() *WaitCounts { return &l.hub.counts }
