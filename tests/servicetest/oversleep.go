package servicetest

import (
	"sync"
	"sync/atomic"
	"time"
)

// Oversleep measures, until rest is called, how much later than asked the machine wakes somebody who does nothing else.
func Oversleep() (most func() time.Duration, rest func()) {
	var slowest atomic.Int64
	stop := make(chan struct{})
	var over sync.WaitGroup
	over.Go(func() {
		for {
			begin := time.Now()
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				slowest.Store(max(slowest.Load(), int64(time.Since(begin)-5*time.Millisecond)))
			}
		}
	})
	return func() time.Duration { return time.Duration(slowest.Load()) }, sync.OnceFunc(func() { close(stop); over.Wait() })
}
