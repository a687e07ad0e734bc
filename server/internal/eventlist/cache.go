package eventlist

import (
	"container/list"
	"sync"

	"worldevents/models"
)

// cache keeps lists that were read, each with the moment that it is of. The database says whether a world has changed since that
// moment in much less time than it takes to read a list. The lists that were asked for last stay, up to a number of bytes, of which
// those that one user has brought in take an eighth.
type cache struct {
	most int // bytes

	mu      sync.Mutex
	entries map[readKey]*cached
	latest  lru // of all
	users   map[models.ID]*lru
}

// lru is cached lists, the one that was used last in front.
type lru struct {
	list  list.List // of *cached
	bytes int
}

// cached is what is known of a list.
type cached struct {
	key    readKey
	user   models.ID // who has brought it in
	list   *heldList
	moment models.Moment
	tagger *tagger // that made the ETag
	// changes is how often in a row the world had changed when somebody asked. After maxChanges a list that one caller wants is read
	// without asking.
	changes int

	size  int
	place *list.Element // in the lru of all
	own   *list.Element // in the lru of that user
}

const (
	maxChanges = 3
	// entrySize is what an entry takes besides its texts, about, in bytes.
	entrySize = 512
)

func newCache(most int) *cache {
	return &cache{most: most, entries: make(map[readKey]*cached), users: make(map[models.ID]*lru)}
}

// get returns what is known of a list. There is no list if nothing is, or the ETag is of another tagger.
func (c *cache) get(key readKey, t *tagger) cached {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry := c.entries[key]
	if entry == nil || entry.tagger != t {
		return cached{}
	}
	c.latest.list.MoveToFront(entry.place)
	c.users[entry.user].list.MoveToFront(entry.own)
	return *entry
}

// put replaces what is known of a list, by nothing if there is no list, none that may be kept, or no moment that it is of. No two readings of a list
// run at the same time, so nothing is replaced by what was known earlier.
func (c *cache) put(entry cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before := c.entries[entry.key]; before != nil {
		c.remove(before)
	}
	if entry.list == nil || entry.moment.IsZero() {
		return
	}
	if entry.size = entrySize + entry.key.size() + entry.list.size(); entry.size > c.most/8 {
		return
	}
	entry.key = entry.key.clone()
	own := c.users[entry.user]
	if own == nil {
		own = new(lru)
		c.users[entry.user] = own
	}
	entry.place, entry.own = c.latest.list.PushFront(&entry), own.list.PushFront(&entry)
	c.entries[entry.key] = &entry
	own.bytes += entry.size
	c.latest.bytes += entry.size
	for own.bytes > c.most/8 {
		c.remove(own.list.Back().Value.(*cached))
	}
	for c.latest.bytes > c.most {
		c.remove(c.latest.list.Back().Value.(*cached))
	}
}

func (c *cache) remove(entry *cached) {
	own := c.users[entry.user]
	own.list.Remove(entry.own)
	if own.bytes -= entry.size; own.list.Len() == 0 {
		delete(c.users, entry.user)
	}
	c.latest.list.Remove(entry.place)
	c.latest.bytes -= entry.size
	delete(c.entries, entry.key)
}

// bytes returns how much is kept.
func (c *cache) bytes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latest.bytes
}
