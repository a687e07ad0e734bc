package eventlist

import (
	"sync"

	"worldevents/models"
	"worldevents/server/internal/ledger"
)

// heldList is a list in memory, as it was at one moment. It never changes.
type heldList struct {
	etag, link string
	json       []byte
	tooLong    *TooLongError // instead of all that
	compress   sync.Once
	gzip       []byte // once somebody needs it

	// mu guards gzip while it is made, and who holds the list.
	mu      sync.Mutex
	held    int // bytes that count among all, once
	holders map[models.ID]holder
}

// holder is what a user holds of a list.
type holder struct{ responses, bytes int }

// content returns what a response has as its body. The first client who needs gzip has it made.
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

// isCompressed reports whether a client who accepts gzip gets that.
func (l *heldList) isCompressed() bool { return len(l.json) >= minCompressed }

// size returns how many bytes the list may come to: those of its gzip form count from the first.
func (l *heldList) size() int {
	n := len(l.json) + len(l.link)
	if l.isCompressed() {
		n *= 2
	}
	return n
}

// hold has a response of user hold the list until free is called. It reports whether they may hold so much. The list counts once for each
// user who holds it, so that nobody is charged for what others have yet to read, nor holds more than a share by way of them.
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

// free ends what hold began.
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
		last, l.held, l.holders = l.held, 0, nil // a map that was large would stay so
	}
	memory.ReleaseShared(user, h.bytes, last)
}
