package server

import (
	"hash/maphash"
	"sync/atomic"
)

// stableLists remembers digests of lists that clients ask for again and again and have already. The database makes a
// digest of the list as it is now, reading indexes alone and sending next to nothing: while it stays the same, so does
// the tag. A list that has changed must be read after all, so the digest is asked for only where that pays. Nobody gains
// by two lists with one digest, as with tags.
type stableLists struct {
	slots [1 << 12]atomic.Pointer[stableList]
	seed  maphash.Seed
}

type stableList struct {
	key    listKey
	tag    string
	digest uint64
	held   int // how often, one after the other, clients had it already
}

// stableAfter is how often a list must have been asked for in vain to be taken for stable. One that changes each time
// it has been taken so costs a fifth more than without all this.
const stableAfter = 3

func (s *stableLists) slot(key listKey) *atomic.Pointer[stableList] {
	return &s.slots[maphash.Comparable(s.seed, key)%uint64(len(s.slots))]
}

// get is nil unless the list is stable.
func (s *stableLists) get(key listKey) *stableList {
	if l := s.slot(key).Load(); l != nil && l.key == key && l.held >= stableAfter {
		return l
	}
	return nil
}

// note takes notice of a list of one batch that has been read with its digest.
func (s *stableLists) note(key listKey, f *flight) {
	held := 0
	slot := s.slot(key)
	if before := slot.Load(); before != nil && before.key == key && before.tag == f.tag {
		held = before.held
	}
	if f.allHold(f.tag) {
		held++
	}
	slot.Store(&stableList{key, f.tag, f.list.Digest, held})
}
