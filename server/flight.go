package server

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"worldevents/models"
)

// listKey is what makes two requests ask for the same list.
type listKey struct{ world, from, to, limit, cursor string }

func newListKey(world, rawQuery string) listKey {
	if rawQuery == "" {
		return listKey{world: world}
	}
	query, _ := url.ParseQuery(rawQuery) // checked before
	return listKey{world, query.Get("from"), query.Get("to"), query.Get("limit"), query.Get("cursor")}
}

// lists lets requests share queries. While the query of a list runs, those who ask for the same list wait for the
// next query and share it. Nobody is given one that began before they asked, so everybody still reads their own
// writes, and those of anybody who has been answered, on any number of instances.
type lists struct {
	mu sync.Mutex
	// running has an entry for each list that is being read: the flight to start next, nil while nobody waits.
	running map[listKey]*flight
	// timeout bounds the reading of a flight.
	timeout time.Duration
	// stable knows which lists need not be read each time.
	stable stableLists
}

// asker is one who asks for a list: a user, and the lines of If-None-Match.
type asker struct {
	userID string
	held   []string
}

// flight is one reading of a list, for those who asked before it began.
type flight struct {
	askers []asker
	read   func(context.Context, *flight) error
	done   chan struct{}
	uses   atomic.Int32 // how many will still release it

	// Set when done.
	err     error
	unknown map[string]bool // users who ask and do not exist
	list    *models.List    // read so far, at least up to where text ends
	text    *listText
	tag     string // the ETag, "" for a list too large to hold
	link    string // the Link header, "" on the last page
	encode  sync.Once
}

// users are those who ask, each once.
func (f *flight) users() []string {
	ids := make([]string, len(f.askers))
	for i, a := range f.askers {
		ids[i] = a.userID
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// allHold tells whether all who ask have the list of this tag.
func (f *flight) allHold(tag string) bool {
	return !slices.ContainsFunc(f.askers, func(a asker) bool { return !matches(a.held, tag) })
}

// json is the text as JSON, which the first who needs it makes.
func (f *flight) json() []byte {
	f.encode.Do(func() { f.text.encode(math.MaxInt, f.list.Done) })
	return f.text.json
}

// share returns a flight that began after the call, to be released. It returns the error of the reading, or
// models.ErrNoUser when this user does not exist.
func (l *lists) share(ctx context.Context, key listKey, a asker, read func(context.Context, *flight) error) (*flight, error) {
	l.mu.Lock()
	f, busy := l.running[key]
	if f == nil {
		f = &flight{read: read, done: make(chan struct{}), text: newListText()}
	}
	f.askers = append(f.askers, a)
	f.uses.Add(1)
	if busy {
		l.running[key] = f
	} else {
		l.running[key] = nil
	}
	l.mu.Unlock()

	var err error
	if !busy {
		l.run(key, f)
	} else {
		err = l.wait(ctx, f)
	}
	if err == nil {
		err = f.err
	}
	if err == nil && f.unknown[a.userID] {
		err = fmt.Errorf("list events: %w", models.ErrNoUser)
	}
	if err != nil {
		f.release()
		return nil, err
	}
	return f, nil
}

// wait until f is done, at most as long as reading takes.
func (l *lists) wait(ctx context.Context, f *flight) error {
	patient, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	select {
	case <-f.done:
		return nil
	case <-patient.Done():
		return patient.Err()
	}
}

// run reads f, then lets the next flight of the same list go.
func (l *lists) run(key listKey, f *flight) {
	defer func() {
		if fault := recover(); fault != nil {
			f.err = fmt.Errorf("read list: panic: %v", fault)
		}
		close(f.done)
		l.mu.Lock()
		defer l.mu.Unlock()
		if next := l.running[key]; next != nil {
			l.running[key] = nil
			go l.run(key, next)
		} else {
			delete(l.running, key)
		}
	}()
	// For all who share it, whoever of them goes away.
	f.err = f.read(context.WithValue(context.Background(), models.Deadline{}, time.Now().Add(l.timeout)), f)
}

// release says that a caller needs the flight no longer. The last one returns the buffer.
func (f *flight) release() {
	if f.uses.Add(-1) > 0 {
		return
	}
	select {
	case <-f.done:
		f.text.free()
	default: // still being read into: left to the collector
	}
}
