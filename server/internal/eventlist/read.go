package eventlist

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"worldevents/models"
	"worldevents/server/internal/ledger"
)

// maxHeld is how long a list may be that is held and not streamed, in bytes of JSON.
const maxHeld = 1 << 20

// read reads a list into r: from the cache if its world has not changed, else from the database, whole or until it is too large to hold.
func (l *Lists) read(ctx context.Context, r *sharedRead) error {
	t, callers := l.tagger.Load(), distinct(r.callers)
	known := l.cache.get(r.key, t)
	if known.list != nil && known.changes < maxChanges || len(callers) > 1 { // sharing a reading never skips a caller's own check
		changes, err := l.store.ChangedSince(ctx, known.moment, r.key.world, callers)
		if err != nil {
			return err
		}
		if r.signedOut = changes.SignedOut; !changes.Changed {
			r.held, r.how = known.list, wayCached
			known.moment, known.changes = changes.Now, 0
			l.cache.put(known)
			return nil
		}
		if known.list != nil {
			known.changes++
		}
		if len(r.signedOut) == len(callers) {
			return nil // nobody is left to read it for
		}
	}
	if err := l.readAnew(ctx, r, callers, t, known.list != nil && known.list.batched); err != nil {
		return err
	}
	if len(r.signedOut) == len(callers) {
		return nil // nobody is left to have read it for
	}
	if known.list != nil && r.held != nil && r.held.etag == known.list.etag { // other lists of the world are what has changed
		r.held, known.changes = known.list, 0
	} else {
		known.user, known.list = r.callers[0].UserID, r.held
	}
	known.key, known.moment, known.tagger = r.key, r.list.Moment, t
	l.cache.put(known)
	return nil
}

// readAnew reads a list from the database. One that took several batches the last time is read in a transaction from the first batch on.
// Most lists take one, and need no transaction.
func (l *Lists) readAnew(ctx context.Context, r *sharedRead, callers []models.Caller, t *tagger, batched bool) (err error) {
	l.readings.Inc()
	if r.how = wayRead; len(r.callers) > 1 {
		r.how = wayShared
	}
	var soleCaller models.Caller // whom the first statement checks along
	if len(callers) == 1 {
		soleCaller = callers[0]
	}
	json := newEncoder()
	defer json.release()
	part := heldPart{memory: l.held.memory, callers: callers, json: json, until: time.Now().Add(l.store.Timeout() / 2)}
	defer part.end()
	r.list = l.store.List(r.options)
	if !batched {
		err = r.list.Next(ctx, soleCaller, json)
	}
	if err == nil && !r.list.Done {
		r.list = l.store.List(r.options) // other statements would see another moment
		json.Truncate(0)
		err = r.list.Snapshot(ctx, soleCaller, json, part.wantsMore)
	}
	if soleCaller != (models.Caller{}) && errors.Is(err, models.ErrSignedOut) {
		r.signedOut = map[models.Caller]bool{soleCaller: true}
		return nil
	}
	if err != nil {
		return err
	}
	if part.refused {
		return nil
	}
	last := r.list.Last
	if !r.list.Done && r.options.Limit > 0 {
		if last, err = r.list.PinPage(ctx); err != nil {
			return err
		}
	}
	if r.list.More {
		r.link = l.nextLink(r.key, last)
	}
	if r.list.Done {
		json.finish()
	}
	read := bytes.Clone(json.out)
	if r.list.Done && len(read) <= maxHeld {
		r.held = &heldList{etag: t.etag(r.link, read), link: r.link, json: read, batched: part.batches > 1}
	} else {
		r.begun = read
	}
	return nil
}

// distinct returns callers, each once.
func distinct(callers []models.Caller) []models.Caller {
	callers = slices.Clone(callers)
	slices.SortFunc(callers, func(a, b models.Caller) int {
		return cmp.Or(bytes.Compare(a.UserID[:], b.UserID[:]), bytes.Compare(a.SessionID[:], b.SessionID[:]))
	})
	return slices.Compact(callers)
}

// maxShort is how long a list may be, in bytes of JSON, whose reading takes no part of what its callers may hold.
const maxShort = 256 << 10

// heldPart is the part of a list that is read before a client gets any of it: the whole of one that is held. Beyond maxShort it holds as
// much as a stream, of one of its callers. If none of them may, because they do not read what they hold, it is in vain.
type heldPart struct {
	memory  *ledger.Ledger[models.ID]
	callers []models.Caller
	json    *encoder
	until   time.Time      // what is not read by then is streamed: a page is yet to be pinned
	holder  *models.Caller // the caller as whom it holds streamBytes
	refused bool           // no caller may hold so much
	// batches is how many have been read, or begun.
	batches int
}

// wantsMore reports whether one batch more is to be read.
func (p *heldPart) wantsMore() bool {
	size := p.json.Size()
	if size == 0 {
		p.batches, p.refused = 0, false // the reading begins, perhaps again
	}
	if p.batches > 0 && (size > maxHeld || time.Now().After(p.until)) {
		return false
	}
	if size > maxShort && p.holder == nil {
		i := slices.IndexFunc(p.callers, func(c models.Caller) bool { return p.memory.Try(c.UserID, streamBytes) })
		if p.refused = i < 0; p.refused {
			return false
		}
		p.holder = &p.callers[i]
	}
	p.batches++
	return true
}

// end gives back what the reading held.
func (p *heldPart) end() {
	if p.holder != nil {
		p.memory.Release(p.holder.UserID, streamBytes)
	}
}
