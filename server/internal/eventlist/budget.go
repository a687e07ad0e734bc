package eventlist

import (
	"sync"

	"worldevents/models"
)

const (
	// maxOwn is how much a response may hold while its client reads without being counted, in bytes.
	maxOwn = 32 << 10
	// budgetBytes is how much all other responses of an instance may hold together, and userBytes how much of that those
	// of one user.
	budgetBytes = 24 << 20
	userBytes   = budgetBytes / 8
	// streamBytes is what a stream of usual batches holds: a batch, which grows by a quarter at a time, and a chunk. The few
	// that begin as a long list hold more of it until they have written that.
	streamBytes = 768 << 10
	// maxSmall is how many lists are streamed in small batches at once, and userSmall how many of those to one user.
	maxSmall  = 512
	userSmall = maxSmall / 8
)

// budget bounds what responses use together: their memory in bytes, or their number. A response that does not get its
// part of the memory is streamed in small batches instead.
type budget struct {
	limit, userLimit int

	mu    sync.Mutex
	used  int
	users map[models.ID]int
}

func newBudget(limit, userLimit int) *budget {
	return &budget{limit: limit, userLimit: userLimit, users: make(map[models.ID]int)}
}

// acquire reports whether user may use n more, to be released.
func (b *budget) acquire(user models.ID, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used+n > b.limit || b.users[user]+n > b.userLimit {
		return false
	}
	b.used += n
	b.users[user] += n
	return true
}

// isMostlyFree reports whether no more than a sixteenth is used.
func (b *budget) isMostlyFree() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used <= b.limit/16
}

func (b *budget) release(user models.ID, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	if b.users[user] -= n; b.users[user] == 0 {
		delete(b.users, user)
	}
}
