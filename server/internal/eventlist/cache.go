package eventlist

import (
	"container/list"
	"sync"

	"worldevents/models"
)

// cache keeps lists with their moments: asking the database whether a world has changed since then is much cheaper than reading a list. It
// keeps the latest used lists, with an eighth of the bytes for the lists of one user.
type cache struct {
	most int // bytes

	mu      sync.Mutex
	entries map[readKey]*cached
	latest  lru // of all
	users   map[models.ID]*lru
}

// lru is a list with the latest used entry first.
type lru struct {
	list  list.List // of *cached
	bytes int
}

// cached is an entry.
type cached struct {
	key    readKey
	user   models.ID // of the first reading
	list   *heldList
	moment models.Moment
	tagger *tagger // of the ETag
	// changes counts the last checks in a row that found a change. After maxChanges a list for one caller is read without a check.
	changes int

	size  int
	place *list.Element // in the lru of all
	own   *list.Element // in the lru of that user
}

const (
	maxChanges = 3
	// entrySize is the approximate size of an entry without its texts, in bytes.
	entrySize = 512
)

func newCache(most int) *cache {
	return &cache{most: most, entries: make(map[readKey]*cached), users: make(map[models.ID]*lru)}
}

// get returns an entry, or the zero one if there is none or its ETag is of another tagger.
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

// put replaces an entry, or removes it if the new one has no list, no moment, or too many bytes. A list is read by one reading at a time,
// so the new entry is never older.
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

func (c *cache) bytes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latest.bytes
}
