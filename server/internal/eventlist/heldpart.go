package eventlist

import (
	"hash/maphash"
	"sync/atomic"
	"time"
)

// A list of more than maxShort bytes of JSON is held only while responses hold little, and few such lists are read at once. Otherwise
// clients that do not read could have each of their requests take a megabyte.
const maxShort = 256 << 10

// heldPart is the part of a list that is read before a client gets any of it: the whole of one that is held.
type heldPart struct {
	lists *Lists
	json  *encoder
	until time.Time // what is not read by then is streamed: a page is yet to be pinned
	large bool      // has a place among those larger than maxShort
	// batches is how many have been read, or begun.
	batches int
}

// wantsMore reports whether one batch more is to be read.
func (p *heldPart) wantsMore() bool {
	size := p.json.Size()
	if size == 0 {
		p.batches = 0 // the reading begins, perhaps again
	}
	if p.batches > 0 && (size > maxHeld || time.Now().After(p.until)) {
		return false
	}
	if size > maxShort && !p.large {
		if p.large = p.lists.held.memory.Held() <= maxMemory/16 && p.lists.held.longReads.Try(nobody, 1); !p.large {
			return false
		}
	}
	p.batches++
	return true
}

// end gives back what the reading held.
func (p *heldPart) end() {
	if p.large {
		p.lists.held.longReads.Release(nobody, 1)
	}
}

// batchedLists remembers which lists took more than one batch. Such a list is read in a transaction from the first batch on, which a
// list of a single batch need not pay for. Many lists share a slot, and the last one stays; a mistake costs a little time.
type batchedLists struct {
	slots [1 << 12]atomic.Uint64
	seed  maphash.Seed
}

func (l *batchedLists) slot(key readKey) (slot *atomic.Uint64, hash uint64) {
	hash = maphash.Comparable(l.seed, key)
	return &l.slots[hash%uint64(len(l.slots))], hash
}

// has reports whether the list took more than one batch when it was read last, as far as is known.
func (l *batchedLists) has(key readKey) bool {
	slot, hash := l.slot(key)
	return slot.Load() == hash
}

// set remembers that of a list.
func (l *batchedLists) set(key readKey, batched bool) {
	slot, hash := l.slot(key)
	if batched {
		slot.Store(hash)
	} else {
		slot.CompareAndSwap(hash, 0)
	}
}
