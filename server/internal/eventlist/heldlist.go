package eventlist

import (
	"sync"

	"worldevents/models"
	"worldevents/server/internal/ledger"
)

// heldList is an immutable list in memory.
type heldList struct {
	etag, link string
	json       []byte
	tooLong    *TooLongError // instead
	compress   sync.Once
	gzip       []byte

	// mu guards gzip while it is made, and the holders.
	mu      sync.Mutex
	held    int // bytes, counted once
	holders map[models.ID]holder
}

// holder is the share of a user.
type holder struct{ responses, bytes int }

// content returns the body of a response. gzip is made on first use.
func (l *heldList) content(asGzip bool) []byte {
	if !asGzip {
		return l.json
	}
	l.compress.Do(func() {
		gzip := compress(l.json)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.gzip = gzip
	})
	return l.gzip
}

func (l *heldList) isCompressed() bool { return len(l.json) >= minCompressed }

// size bounds the bytes of the list, including its gzip form.
func (l *heldList) size() int {
	n := len(l.json) + len(l.link)
	if l.isCompressed() {
		n *= 2
	}
	return n
}

// hold counts the list for a response of user until free is called, and reports whether the user has room. It counts once for each user, so
// that nobody pays for the responses of others, nor keeps more than a share.
func (l *heldList) hold(held holdings, user models.ID) (free func(), ok bool) {
	memory := held.memory
	switch {
	case len(l.json) <= maxUncounted:
		return func() {}, true
	case len(l.json) <= maxOwn:
		memory = held.small
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	size := len(l.json) + len(l.gzip)
	h := l.holders[user]
	if size > h.bytes && !memory.TryShared(user, size-h.bytes, size-l.held) {
		return nil, false
	}
	if l.holders == nil {
		l.holders = make(map[models.ID]holder)
	}
	l.held, l.holders[user] = size, holder{h.responses + 1, size}
	return func() { l.free(memory, user) }, true
}

func (l *heldList) free(memory *ledger.Ledger[models.ID], user models.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.holders[user]
	if h.responses--; h.responses > 0 {
		l.holders[user] = h
		return
	}
	delete(l.holders, user)
	last := 0
	if len(l.holders) == 0 {
		last, l.held, l.holders = l.held, 0, nil // a large map never shrinks
	}
	memory.ReleaseShared(user, h.bytes, last)
}
