package postgres

import (
	"testing"
	"time"
)

// A transaction of writes waits for locks for longer than others usually take, and for less than deadlock_timeout, which is a second.
func TestLockTimeout(t *testing.T) {
	for _, test := range []struct{ timeout, usual, want time.Duration }{
		{2 * time.Second, 0, 200 * time.Millisecond},
		{2 * time.Second, 10 * time.Millisecond, 200 * time.Millisecond},
		{2 * time.Second, 80 * time.Millisecond, 320 * time.Millisecond},
		{time.Minute, 5 * time.Second, 400 * time.Millisecond},
		{200 * time.Millisecond, 80 * time.Millisecond, 100 * time.Millisecond},
	} {
		p := pipelines{timeout: test.timeout}
		p.usual.Store(int64(test.usual))
		if got := p.lockTimeout(); got != test.want {
			t.Errorf("timeout %v, usually %v: %v, want %v", test.timeout, test.usual, got, test.want)
		}
	}
}
