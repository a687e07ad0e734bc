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
	// maxWaiting is how many requests of one user wait for that, and maxLimiterWait for how long: more get ErrBusy.
	maxWaiting     = 256
	maxLimiterWait = 10 * time.Second
	// maxIdle is how many users without requests are kept to be used again.
	maxIdle = 64
)

// userLimiter lets each user read a few lists at once. Requests for more wait, first come first served.
type userLimiter struct {
	mu    sync.Mutex
	users map[models.ID]*readingUser
	idle  []*readingUser // to be used again
}

// readingUser is a user with requests that read lists or wait to do so.
type readingUser struct {
	reading []reading
	waiting []*waiter
}

// reading is a list that is being read for a user, for so many of their requests.
type reading struct {
	key      readKey
	requests int
}

// waiter is a request that waits.
type waiter struct {
	key      readKey
	admitted chan struct{}
}

// acquire returns once the user may read the list of key, to be ended by release. Requests for a list that is being read for
// the user are admitted at once. It calls pause when it begins to wait, and what that returns when it does so no longer. It
// returns models.ErrBusy when too many wait already, or it would wait too long, and the error of ctx when that ends first.
func (l *userLimiter) acquire(ctx context.Context, user models.ID, key readKey, pause func() func()) (waited bool, err error) {
	l.mu.Lock()
	u := l.users[user]
	if u == nil {
		u = l.newUser()
		l.users[user] = u
	}
	if u.begin(key) {
		l.mu.Unlock()
		return false, nil
	}
	if len(u.waiting) >= maxWaiting {
		l.mu.Unlock()
		return false, models.ErrBusy
	}
	w := &waiter{key, make(chan struct{})}
	u.waiting = append(u.waiting, w)
	l.mu.Unlock()

	defer pause()()
	timer := time.NewTimer(maxLimiterWait)
	defer timer.Stop()
	select {
	case <-w.admitted:
		return true, nil
	case <-timer.C:
		err = models.ErrBusy
	case <-ctx.Done():
		err = ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(u.waiting, w); i >= 0 {
		u.waiting = slices.Delete(u.waiting, i, i+1)
		return true, err
	}
	return true, nil // it was admitted just now
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

// release ends what acquire began, and admits the next.
func (l *userLimiter) release(user models.ID, key readKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.users[user]
	i := slices.IndexFunc(u.reading, func(r reading) bool { return r.key == key })
	if u.reading[i].requests--; u.reading[i].requests > 0 {
		return
	}
	u.reading = slices.Delete(u.reading, i, i+1)
	for len(u.waiting) > 0 && u.begin(u.waiting[0].key) {
		close(u.waiting[0].admitted)
		u.waiting = u.waiting[1:]
	}
	if len(u.reading) == 0 {
		delete(l.users, user)
		if len(l.idle) < maxIdle {
			l.idle = append(l.idle, u)
		}
	}
}

// newUser returns a user without requests.
func (l *userLimiter) newUser() *readingUser {
	last := len(l.idle) - 1
	if last < 0 {
		return new(readingUser)
	}
	u := l.idle[last]
	l.idle = l.idle[:last]
	return u
}
