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
	compress   sync.Once
	gzip       []byte // once somebody needs it

	// While holders responses hold the list, its held bytes count once, as those of the user holder.
	mu            sync.Mutex
	holder        models.ID
	held, holders int
}

// content returns what a response has as its body. The first client who needs gzip has it made.
func (l *heldList) content(asGzip bool) []byte {
	if !asGzip {
		return l.json
	}
	l.compress.Do(func() { l.gzip = compress(l.json) })
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

// hold has a response of the list hold size bytes until free is called. They are counted once, however many share them. It
// reports whether user may hold so much.
func (l *heldList) hold(memory *ledger.Ledger[models.ID], user models.ID, size int) (free func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holders == 0 {
		if !memory.Try(user, size) {
			return nil, false
		}
		l.holder, l.held = user, size
	}
	l.holders++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.holders--; l.holders == 0 {
			memory.Release(l.holder, l.held)
		}
	}, true
}
