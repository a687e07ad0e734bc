package eventlist

import (
	"context"
	"slices"
	"sync"
	"time"

	"worldevents/models"
)

const (
	// maxReading is how many different lists are read at once for one user.
	maxReading = 16
	// maxWaiting is how many requests of one user wait for their turn, and maxTurnWait for how long: more get ErrBusy.
	maxWaiting  = 256
	maxTurnWait = 10 * time.Second
)

// turns lets each user read a few lists at once. Requests for more wait for their turn, first come first served.
type turns struct {
	mu    sync.Mutex
	users map[models.ID]*readingUser
}

// readingUser is a user with requests that read lists or wait for their turn.
type readingUser struct {
	reading []reading
	waiting []*turn
}

// reading is a list that is being read for a user, for so many of their requests.
type reading struct {
	key      readKey
	requests int
}

// turn is a request that waits for its turn.
type turn struct {
	key  readKey
	come chan struct{}
}

// take returns once the user may read the list of key, to be ended by release. Requests for a list that is being read for
// them have their turn at once. It calls pause when it begins to wait, and what that returns when it does so no longer. It
// returns models.ErrBusy when too many wait already, or the turn has not come in time, and the error of ctx when that ends
// first.
func (t *turns) take(ctx context.Context, user models.ID, key readKey, pause func() func()) (waited bool, err error) {
	t.mu.Lock()
	u := t.users[user]
	if u == nil {
		u = new(readingUser)
		t.users[user] = u
	}
	if u.begin(key) {
		t.mu.Unlock()
		return false, nil
	}
	if len(u.waiting) >= maxWaiting {
		t.mu.Unlock()
		return false, models.ErrBusy
	}
	w := &turn{key, make(chan struct{})}
	u.waiting = append(u.waiting, w)
	t.mu.Unlock()

	defer pause()()
	timer := time.NewTimer(maxTurnWait)
	defer timer.Stop()
	select {
	case <-w.come:
		return true, nil
	case <-timer.C:
		err = models.ErrBusy
	case <-ctx.Done():
		err = ctx.Err()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(u.waiting, w); i >= 0 {
		u.waiting = slices.Delete(u.waiting, i, i+1)
		return true, err
	}
	return true, nil // it came just now
}

// begin reports whether the list of key may be read now, and counts it.
func (u *readingUser) begin(key readKey) bool {
	for i := range u.reading {
		if u.reading[i].key == key {
			u.reading[i].requests++
			return true
		}
	}
	if len(u.reading) >= maxReading {
		return false
	}
	u.reading = append(u.reading, reading{key, 1})
	return true
}

// release ends a turn, and begins the next one.
func (t *turns) release(user models.ID, key readKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.users[user]
	i := slices.IndexFunc(u.reading, func(r reading) bool { return r.key == key })
	if u.reading[i].requests--; u.reading[i].requests > 0 {
		return
	}
	u.reading = slices.Delete(u.reading, i, i+1)
	for len(u.waiting) > 0 && u.begin(u.waiting[0].key) {
		close(u.waiting[0].come)
		u.waiting = u.waiting[1:]
	}
	if len(u.reading) == 0 {
		delete(t.users, user)
	}
}
