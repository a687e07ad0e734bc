package backpressure

import (
	"container/list"
	"sync"
	"sync/atomic"
)

// Class is the responses that are stalled.
type Class struct {
	limit, perUser, perAddress int

	total   atomic.Int64  // written under mu
	aborted atomic.Uint64 // to keep to the bounds, so far

	mu        sync.Mutex
	users     map[string]*list.List // of *entry, the one that has been stalled longest first
	addresses map[string]*list.List
	entered   uint64 // so far
	conns     map[*Conn]bool
	hurried   atomic.Bool
}

// entry is a response in the class.
type entry struct {
	conn              *Conn
	user, address     string
	number            uint64        // in the order of entering
	ofUser, ofAddress *list.Element // nil once it has left
	aborted           atomic.Bool
}

// New returns a class of at most limit responses: an address may hold half of them, and a user, or all without a user
// at one address, an eighth.
func New(limit int) *Class {
	return &Class{
		limit: max(1, limit), perUser: max(1, limit/8), perAddress: max(1, limit/2),
		users: make(map[string]*list.List), addresses: make(map[string]*list.List), conns: make(map[*Conn]bool),
	}
}

// Stalled returns how many responses are.
func (c *Class) Stalled() int { return int(c.total.Load()) }

// IsFull reports whether user has as many responses in the class as they may have.
func (c *Class) IsFull(user string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	group := c.users[userKey(user)]
	return group != nil && group.Len() >= c.perUser
}

// userKey tells users from addresses without a user.
func userKey(user string) string { return "user " + user }

// enter adds a response. If that passes a bound, it aborts another.
func (c *Class) enter(conn *Conn, user, address string) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entered++
	e := &entry{conn: conn, user: user, address: address, number: c.entered}
	e.ofUser, e.ofAddress = push(c.users, user, e), push(c.addresses, address, e)
	c.total.Add(1)
	switch {
	case c.users[user].Len() > c.perUser:
		c.abort(c.users[user])
	case c.addresses[address].Len() > c.perAddress:
		c.abort(c.addresses[address])
	case c.Stalled() > c.limit:
		c.abort(c.largest())
	}
	return e
}

// Hurry ends, after a second, whatever a client holds up that does not read or send fast. A stalled response may go on for the
// TimeFor of what its client reads from then on, and a request must have arrived.
func (c *Class) Hurry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hurried.Store(true)
	for conn := range c.conns {
		conn.hurry()
	}
	for _, group := range c.users {
		for e := group.Front(); e != nil; e = e.Next() {
			e.Value.(*entry).conn.wake()
		}
	}
}

// leave takes a response out of the class, unless it was aborted.
func (c *Class) leave(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(e)
}

// abort ends the response of a group that has been stalled longest.
func (c *Class) abort(group *list.List) {
	e := group.Front().Value.(*entry)
	c.remove(e)
	c.aborted.Add(1)
	e.aborted.Store(true)
	e.conn.wake()
}

func (c *Class) remove(e *entry) {
	if e.ofUser == nil {
		return
	}
	pull(c.users, e.user, e.ofUser)
	pull(c.addresses, e.address, e.ofAddress)
	e.ofUser = nil
	c.total.Add(-1)
}

// largest returns the stalled responses of the user who has most of them; of several such users, of the one whose first has been
// stalled longest. It looks at all users, but is called only when the class is full.
func (c *Class) largest() (most *list.List) {
	oldest := func(group *list.List) uint64 { return group.Front().Value.(*entry).number }
	for _, group := range c.users {
		if most == nil || group.Len() > most.Len() || group.Len() == most.Len() && oldest(group) < oldest(most) {
			most = group
		}
	}
	return most
}

func push(groups map[string]*list.List, key string, e *entry) *list.Element {
	group := groups[key]
	if group == nil {
		group = list.New()
		groups[key] = group
	}
	return group.PushBack(e)
}

func pull(groups map[string]*list.List, key string, e *list.Element) {
	group := groups[key]
	group.Remove(e)
	if group.Len() == 0 {
		delete(groups, key)
	}
}
