package eventlist

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"worldevents/models"
)

// read reads a list into r: from the cache if its world is unchanged, else from the database.
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
			return nil // no caller is left
		}
	}
	moment, err := l.readAnew(ctx, r, callers, t)
	if err != nil {
		return err
	}
	if len(r.signedOut) == len(callers) {
		return nil
	}
	if known.list != nil && r.held.tooLong == nil && r.held.etag == known.list.etag { // other lists of the world have changed
		r.held, known.changes = known.list, 0
	} else {
		known.user, known.list = r.callers[0].UserID, r.held
	}
	known.key, known.moment, known.tagger = r.key, moment, t
	l.cache.put(known)
	return nil
}

// readAnew reads a list from the database.
func (l *Lists) readAnew(ctx context.Context, r *sharedRead, callers []models.Caller, t *tagger) (models.Moment, error) {
	l.readings.Inc()
	if r.how = wayRead; len(r.callers) > 1 {
		r.how = wayShared
	}
	var soleCaller models.Caller // checked by the same statement
	if len(callers) == 1 {
		soleCaller = callers[0]
	}
	release, err := l.acquireReader(callers)
	if err != nil {
		return models.Moment{}, err
	}
	defer func() { release() }()
	r.room.memory, r.room.callers = l.held.memory, callers
	json := &encoder{room: &r.room}
	defer json.release()
	list, err := l.store.ReadList(ctx, r.options, soleCaller, json)
	if soleCaller != (models.Caller{}) && errors.Is(err, models.ErrSignedOut) {
		r.signedOut = map[models.Caller]bool{soleCaller: true}
		return models.Moment{}, nil
	}
	if err != nil {
		return models.Moment{}, err
	}
	if json.err != nil { // in vain, and on PostgreSQL the connection is gone: the caller has one less for a while
		free := release
		release = func() { time.AfterFunc(min(inVainTime, l.store.MaxWait()/2), free) }
	}
	if json.err == ErrNoRoom {
		return models.Moment{}, json.err
	}
	link := ""
	if list.More || json.err != nil {
		link = l.nextLink(r.key, list.Last)
	}
	if json.err != nil {
		l.long.found(r.key.world)
		r.held = &heldList{tooLong: &TooLongError{}}
		if json.events == 0 {
			r.held.tooLong.Link = link
		}
		return list.Moment, nil
	}
	read := json.list()
	r.held = &heldList{etag: t.etag(link, read), link: link, json: read}
	return list.Moment, nil
}

func distinct(callers []models.Caller) []models.Caller {
	callers = slices.Clone(callers)
	slices.SortFunc(callers, func(a, b models.Caller) int {
		return cmp.Or(bytes.Compare(a.UserID[:], b.UserID[:]), bytes.Compare(a.SessionID[:], b.SessionID[:]))
	})
	return slices.Compact(callers)
}
