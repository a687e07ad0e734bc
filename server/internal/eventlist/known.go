package eventlist

import (
	"hash/maphash"
	"sync/atomic"

	"worldevents/models"
)

// knownLists remembers lists that clients have already, by their ETag and the moment that they are of. The database says whether a
// world has changed since that moment in much less time than it takes to read a list. A list is remembered once it has been read
// only to say 304, so that nobody asks about one that changes all the time.
//
// It is direct-mapped: a list has one slot, and a newer list evicts the older.
type knownLists struct {
	slots [1 << 12]atomic.Pointer[knownList]
	seed  maphash.Seed
}

// knownList never changes. What is known later is another one in its slot.
type knownList struct {
	key        readKey
	tagger     *tagger // that made etag
	etag, link string
	moment     models.Moment
}

// maxKnown is how long the texts of a list may be that is remembered, in bytes: the client has chosen most of them.
const maxKnown = 1 << 10

func (k *knownLists) slot(key readKey) *atomic.Pointer[knownList] {
	return &k.slots[maphash.Comparable(k.seed, key)%uint64(len(k.slots))]
}

// get returns nil for a list that is not known, or by an ETag of another tagger.
func (k *knownLists) get(key readKey, t *tagger) *knownList {
	if known := k.slot(key).Load(); known != nil && known.key == key && known.tagger == t {
		return known
	}
	return nil
}

// add remembers a list that was read. No other reading of the list is under way.
func (k *knownLists) add(key readKey, r *sharedRead) {
	slot := k.slot(key)
	before := slot.Load()
	if r.list.Moment.IsZero() || key.size()+len(r.link) > maxKnown {
		return
	}
	slot.CompareAndSwap(before, &knownList{key.clone(), r.tagger, r.etag, r.link, r.list.Moment})
}

// advance says that the list was still the same at a later moment.
func (k *knownLists) advance(key readKey, known *knownList, now models.Moment) {
	if now != known.moment {
		k.slot(key).CompareAndSwap(known, &knownList{known.key, known.tagger, known.etag, known.link, now})
	}
}

// remove forgets a list that has changed.
func (k *knownLists) remove(key readKey, known *knownList) { k.slot(key).CompareAndSwap(known, nil) }
