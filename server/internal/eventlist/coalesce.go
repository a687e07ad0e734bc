package eventlist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"worldevents/models"
	"worldevents/server/internal/ledger"
)

// readKey is what makes two requests ask for the same list. It has the parameters as they are spelled, since Link
// repeats them.
type readKey struct{ world, from, to, limit, cursor string }

func newReadKey(world, rawQuery string) readKey {
	if rawQuery == "" {
		return readKey{world: world}
	}
	query, _ := url.ParseQuery(rawQuery) // checked before
	return readKey{world, query.Get("from"), query.Get("to"), query.Get("limit"), query.Get("cursor")}
}

// size is how many bytes the texts of a key have.
func (k readKey) size() int {
	return len(k.world) + len(k.from) + len(k.to) + len(k.limit) + len(k.cursor)
}

// clone returns a key that does not keep the request alive.
func (k readKey) clone() readKey {
	return readKey{strings.Clone(k.world), strings.Clone(k.from), strings.Clone(k.to), strings.Clone(k.limit), strings.Clone(k.cursor)}
}

// coalescer lets requests share readings. Unlike singleflight's, a reading that is shared has begun after all who
// share it asked for it.
type coalescer struct {
	mu sync.Mutex
	// running has an entry for each list that is being read: the reading to start next, nil while nobody waits.
	running map[readKey]*sharedRead
	// timeout bounds a reading.
	timeout time.Duration
}

// sharedRead is one reading of a list, for the callers who asked before it began.
type sharedRead struct {
	callers []Caller
	read    func(context.Context, *sharedRead) error
	done    chan struct{}
	// refs counts who still needs the buffers: each caller, and the goroutine that reads. The last of them returns the
	// buffers, so that nobody reads into a buffer that has been given to somebody else.
	refs atomic.Int32

	// Set when done.
	err       error
	usage     models.Usage
	signedOut map[models.Caller]bool // callers who are not active
	list      *models.EventReader    // read so far, at least up to where records end
	records   *records
	tagger    *tagger
	etag      string // "" for a list too large to hold
	// unread means that the list was not read, since its world has not changed and all callers have it.
	unread   bool
	link     string        // the Link header, "" on the last page
	since    uint64        // the hints that came before the reading
	begun    time.Time     // before the reading
	hints    []models.Hint // of the list, if a caller wants them and it is held
	encode   sync.Once
	json     *encoder
	encoded  bool
	compress sync.Once
	gzip     *bytes.Buffer // nil until somebody needs it
	gzipOf   int           // bytes

	// holder has the memory of the list, held bytes, counted as its own while holders responses hold it.
	mu            sync.Mutex
	holder        models.ID
	held, holders int
}

// handOver is called wherever one goroutine leaves a sharedRead to others. Tests delay it.
var handOver = func() {}

// do returns a reading that began after the call, to be released, and whether it was another goroutine's. It returns
// the error of the reading, models.ErrSignedOut when this caller is not active, and models.ErrTimeout when the reading
// took too long. It does not ask whether the client is still there: waiting is short, and a client may close its side of
// the connection after the request.
func (c *coalescer) do(ctx context.Context, key readKey, caller Caller, read func(context.Context, *sharedRead) error) (r *sharedRead, shared bool, err error) {
	deadline := time.Now().Add(c.timeout)
	if d, ok := ctx.Value(models.Deadline{}).(time.Time); ok && d.Before(deadline) {
		deadline = d
	}
	c.mu.Lock()
	r, shared = c.running[key]
	if r == nil {
		r = &sharedRead{read: read, done: make(chan struct{}), records: newRecords(true)}
		r.refs.Store(1) // of the goroutine that will read
	}
	r.callers = append(r.callers, caller)
	r.refs.Add(1)
	c.running[key] = nil
	if shared {
		c.running[key] = r
	}
	c.mu.Unlock()
	handOver()

	if shared {
		err = r.wait(deadline)
	} else {
		c.run(key, r, deadline)
	}
	if err == nil {
		models.UsageOf(ctx).Add(r.usage) // which is the same for all who share it
		err = r.err
	}
	if err == nil && r.signedOut[caller.Caller] {
		err = models.ErrSignedOut
	}
	if err != nil {
		r.release()
		return nil, shared, fmt.Errorf("list events of world %q: %w", key.world, err)
	}
	return r, shared, nil
}

// doTwice is do, and once more if a reading failed that others shared: its cause, such as a connection that broke, need
// not be the caller's. A pool that is busy, or a deadline that has passed, is everybody's: more work would not mend it.
func (c *coalescer) doTwice(ctx context.Context, key readKey, caller Caller, read func(context.Context, *sharedRead) error) (*sharedRead, error) {
	r, shared, err := c.do(ctx, key, caller, read)
	for _, final := range []error{models.ErrSignedOut, models.ErrBusy, models.ErrTimeout} {
		shared = shared && !errors.Is(err, final)
	}
	if err != nil && shared {
		r, _, err = c.do(ctx, key, caller, read)
	}
	return r, err
}

// wait waits until r is done.
func (r *sharedRead) wait(deadline time.Time) error {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-r.done:
		return nil
	case <-timer.C:
		return models.ErrTimeout
	}
}

// run reads r, then starts the next reading of the same list.
func (c *coalescer) run(key readKey, r *sharedRead, deadline time.Time) {
	defer func() {
		if p := recover(); p != nil {
			r.err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		handOver()
		close(r.done)
		handOver()
		r.release()
		c.mu.Lock()
		defer c.mu.Unlock()
		if next := c.running[key]; next != nil {
			c.running[key] = nil
			go c.run(key, next, time.Now().Add(c.timeout))
		} else {
			delete(c.running, key)
		}
	}()
	r.err = r.read(readContext{context.Background(), deadline, &r.usage}, r)
}

// readContext is the context of a reading for all who share it, whoever of them goes away.
type readContext struct {
	context.Context
	deadline time.Time
	usage    *models.Usage
}

// Value implements context.Context.
func (c readContext) Value(key any) any {
	switch key {
	case models.Deadline{}:
		return c.deadline
	case models.UsageKey{}:
		return c.usage
	}
	return c.Context.Value(key)
}

// body returns the JSON of a list that is held, which the first caller who needs it makes. If that panics, it panics for
// all who share it.
func (r *sharedRead) body() []byte {
	r.encode.Do(func() {
		r.json = newEncoder(len(r.records.bytes) > maxOwn/4)
		r.json.encode(r.records.bytes, maxInt)
		r.json.end()
		r.encoded = true
		r.records.release()
		r.records = nil // a response may wait long for its client
	})
	if !r.encoded {
		panic("the list that is shared could not be encoded")
	}
	return r.json.out
}

// gzipBody returns body, which is that of r, as gzip. The first caller who needs that makes it; if that panics, r.gzip is
// nil and it panics for all of them.
func (r *sharedRead) gzipBody(body []byte) []byte {
	r.compress.Do(func() { r.gzip, r.gzipOf = compress(body), len(body) })
	return r.gzip.Bytes()
}

// hold has a response hold size bytes until free is called. A stream holds its own; the JSON of a list is counted once,
// however many share it. It reports whether user may hold so much.
func (r *sharedRead) hold(memory *ledger.Ledger[models.ID], user models.ID, size int) (free func(), ok bool) {
	if size <= maxOwn {
		return func() {}, true
	}
	if r.etag == "" {
		return func() { memory.Release(user, size) }, memory.Try(user, size)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holders == 0 {
		if !memory.Try(user, size) {
			return nil, false
		}
		r.holder, r.held = user, size
	}
	r.holders++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.holders--; r.holders == 0 {
			memory.Release(r.holder, r.held)
		}
	}, true
}

// release says that one of those who need the buffers does so no longer.
func (r *sharedRead) release() {
	handOver()
	if r.refs.Add(-1) > 0 {
		return
	}
	if r.records != nil {
		r.records.release()
	}
	if r.gzip != nil {
		releaseCompressed(r.gzip, r.gzipOf)
	}
	if r.json != nil {
		r.json.release()
	}
}
