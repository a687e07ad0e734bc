package observe

import (
	"log/slog"
	"sync"
	"time"
)

// repeatInterval is how long a cause that many requests meet leaves no second full line.
const repeatInterval = time.Second

// repeats keeps the log from saying the same of each request while the database is away or the like: of each state the first failure
// is a line in full, and those of the second after it are a line that counts them.
type repeats struct {
	log  *slog.Logger
	mu   sync.Mutex
	more map[string]int // failures since the last line, of each state that has failed within the interval
}

// first reports whether a failure is to be a line of its own.
func (r *repeats) first(state string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n, running := r.more[state]; running {
		r.more[state] = n + 1
		return false
	}
	r.more[state] = 0
	time.AfterFunc(repeatInterval, func() { r.flush(state) })
	return true
}

// flush ends an interval.
func (r *repeats) flush(state string) {
	r.mu.Lock()
	n := r.more[state]
	delete(r.more, state)
	r.mu.Unlock()
	if n > 0 {
		r.log.Error("more requests failed", "state", state, "requests", n)
	}
}
