package eventlist

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
	"time"

	"worldevents/models"
)

// fingerprintCache remembers fingerprints of lists that clients ask for again and again and have already. The database
// makes a fingerprint of the list as it is now, reading indexes alone and sending next to nothing: while it stays the
// same, so does the ETag. The cache is direct-mapped: a list has one slot, and a newer list evicts the older. An entry
// has at most a kilobyte, however the request was spelled.
type fingerprintCache struct {
	slots [1 << 12]atomic.Pointer[fingerprintEntry]
	seed  maphash.Seed
}

// fingerprintEntry is a list of one batch and without Link that all its callers had already.
type fingerprintEntry struct {
	key         fingerprintKey
	etag        string
	fingerprint uint64 // at the time of etag; set once the fingerprint is used
	hits        int    // how often in a row the list was read only to say 304
}

// fingerprintKey is what a list selects, times in milliseconds.
type fingerprintKey struct {
	world           string
	from, to, after int64
	afterID         models.ID
	limit           int
}

func newFingerprintKey(s models.ListOptions) fingerprintKey {
	milli := func(t time.Time) int64 {
		if t.IsZero() {
			return -1 // no event is scheduled before 1970
		}
		return t.UnixMilli()
	}
	if s.To.Nanosecond()%1e6 != 0 { // only after the last millisecond of all: then it bounds nothing
		s.To = time.Time{}
	}
	if s.From.Nanosecond()%1e6 != 0 { // likewise: then nothing is selected
		s.From = s.From.Add(time.Millisecond)
	}
	return fingerprintKey{s.WorldID, milli(s.From), milli(s.To), milli(s.After.ScheduledAt), s.After.ID, s.Limit}
}

// minHits is how many 304s in a row make a fingerprint worth asking for. A list that changes whenever it has come so
// far costs a fifth more than if it were always read.
const minHits = 3

// useFingerprint reports whether the fingerprint is to be asked for before the list is read.
func (e *fingerprintEntry) useFingerprint() bool { return e.hits >= minHits }

// wantFingerprint reports whether the next 304 makes the fingerprint useful, so that the list is read together with it.
func (e *fingerprintEntry) wantFingerprint() bool { return e.hits == minHits-1 }

func (c *fingerprintCache) slot(key fingerprintKey) *atomic.Pointer[fingerprintEntry] {
	return &c.slots[maphash.Comparable(c.seed, key)%uint64(len(c.slots))]
}

// get returns nil for a list that is not known.
func (c *fingerprintCache) get(span models.ListOptions) *fingerprintEntry {
	key := newFingerprintKey(span)
	if e := c.slot(key).Load(); e != nil && e.key == key {
		return e
	}
	return nil
}

// update takes notice of a list of one batch that has been read, with its fingerprint if that was wanted. before is
// what was known of it.
func (c *fingerprintCache) update(span models.ListOptions, before *fingerprintEntry, r *sharedRead) {
	key, match := newFingerprintKey(span), r.allMatch(r.etag)
	slot := c.slot(key)
	switch {
	case before == nil && match:
		key.world = strings.Clone(key.world) // it is part of the request, which need not be kept
		slot.Store(&fingerprintEntry{key: key, etag: r.etag, hits: 1})
	case before == nil:
	case before.etag != r.etag || match && before.useFingerprint(): // it has changed
		slot.CompareAndSwap(before, nil)
	case match:
		slot.CompareAndSwap(before, &fingerprintEntry{before.key, r.etag, r.list.Fingerprint, before.hits + 1})
	}
}
