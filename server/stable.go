package server

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
)

// stableLists remembers digests of lists that clients ask for again and again and have already. The database makes a
// digest of the list as it is now, reading indexes alone and sending next to nothing: while it stays the same, so does
// the tag. A list that has changed must be read after all, so the digest is asked for only where that pays.
type stableLists struct {
	slots [1 << 12]atomic.Pointer[stableList]
	seed  maphash.Seed
}

// stableList is a list of one batch that somebody had already.
type stableList struct {
	key    listKey
	tag    string
	digest uint64 // at the time of tag; set once the list is stable
	held   int    // how often it was read for nothing
}

// stableAfter is how often a list must have been read for nothing to be taken for stable. One that changes whenever it
// has come so far costs a fifth more than if it were always read.
const stableAfter = 3

func (l *stableList) isStable() bool { return l.held >= stableAfter }

// isNearly tells whether the list will be stable if it is read for nothing once more, and needs its digest then.
func (l *stableList) isNearly() bool { return l.held == stableAfter-1 }

func (s *stableLists) slot(key listKey) *atomic.Pointer[stableList] {
	return &s.slots[maphash.Comparable(s.seed, key)%uint64(len(s.slots))]
}

// get is nil for a list that nobody had.
func (s *stableLists) get(key listKey) *stableList {
	if l := s.slot(key).Load(); l != nil && l.key == key {
		return l
	}
	return nil
}

// note takes notice of a list of one batch that has been read, with its digest if it was nearly stable. before is what
// was known of it.
func (s *stableLists) note(key listKey, before *stableList, f *flight) {
	slot, held := s.slot(key), f.allHold(f.tag)
	switch {
	case before == nil && held:
		slot.Store(&stableList{key: key.clone(), tag: f.tag, held: 1})
	case before == nil:
	case before.tag != f.tag || held && before.isStable(): // it has changed
		slot.CompareAndSwap(before, nil)
	case held:
		slot.CompareAndSwap(before, &stableList{before.key, f.tag, f.list.Digest, before.held + 1})
	}
}

// clone lets go of the request that the key is part of.
func (k listKey) clone() listKey {
	return listKey{strings.Clone(k.world), strings.Clone(k.from), strings.Clone(k.to), strings.Clone(k.limit), strings.Clone(k.cursor)}
}
