package livelist

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"worldevents/models"
	"worldevents/server/internal/apart"
	"worldevents/server/internal/eventlist"
	"worldevents/server/internal/inflight"
)

const (
	// maxAnswering bounds the watchers that read their lists or write responses.
	maxAnswering = 16
	// answerTimeout bounds the wait for a turn to look, and a response.
	answerTimeout = 30 * time.Second
	// writeTurn is how long the writing of a response keeps its turn at most.
	writeTurn = 20 * time.Millisecond
)

// Watch is a response that waits while the client has the list.
type Watch struct {
	ctx    context.Context
	lists  *Lists
	query  eventlist.Query
	caller eventlist.Caller
	until  time.Time
	turn   atomic.Bool

	// MayGo returns an error once the caller may not have the list any more; nil means that they always may.
	MayGo func() error
	// NewsWait is the wait for news, and QueueWait that for turns. Both are known after Write.
	NewsWait, QueueWait time.Duration
}

// Watch returns a response that waits until the list differs from If-None-Match, or until then. It returns eventlist.ErrCursor.
func (l *Lists) Watch(ctx context.Context, q eventlist.Query, caller eventlist.Caller, until time.Time) (*Watch, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	return &Watch{ctx: ctx, lists: l, query: q, caller: caller, until: until}, nil
}

// Write waits, and then writes the response. It returns the errors of eventlist.Lists.Get and eventlist.Response.Write: models.ErrSignedOut
// also if the session was revoked meanwhile.
func (p *Watch) Write(w http.ResponseWriter) error {
	l := p.lists
	if tags := p.caller.Tags; len(tags) == 0 || tags[0] == eventlist.AnyTag {
		return p.writeAtOnce(w, false)
	}
	if !l.watches.Try(p.caller.UserID, 1) {
		l.counts.count(full)
		return p.writeAtOnce(w, true)
	}
	defer l.watches.Release(p.caller.UserID, 1)
	v := l.hub.register(p.query.World)
	if v == nil {
		l.counts.count(stopped)
		return p.writeAtOnce(w, true)
	}
	defer l.hub.forget(v)
	inflight.FromContext(p.ctx).GiveBack()
	defer p.endTurn()
	http.NewResponseController(w).SetReadDeadline(time.Time{}) // that of the request; it would end the watch
	return p.run(w, v)
}

// get gets the list, with a new deadline of the store.
func (p *Watch) get() (*eventlist.Response, error) {
	return p.lists.lists.Get(p.lists.store.WithDeadline(p.ctx), p.query, p.caller)
}

// writeAtOnce writes the list without waiting. With early a 304 has Retry-After.
func (p *Watch) writeAtOnce(w http.ResponseWriter, early bool) error {
	response, err := p.get()
	if err != nil {
		return err
	}
	return response.Write(w, early)
}

// run looks at the list, and again after each change of its world, until it differs or the watch ends.
func (p *Watch) run(w http.ResponseWriter, v *watcher) error {
	timer := time.NewTimer(time.Until(p.until))
	defer timer.Stop()
	control, counts := http.NewResponseController(w), p.lists.counts
	var why outcome // none before the first look
	var written time.Time
	for {
		response, err := p.look(why)
		control.SetWriteDeadline(time.Now().Add(answerTimeout))
		if err != nil {
			switch {
			case why == "": // it has not looked before
			case errors.Is(err, models.ErrSignedOut):
				counts.count(revoked)
			case errors.Is(err, eventlist.ErrClientGone):
				counts.count(gone)
			}
			return err
		}
		if response.IsUnchanged() && why != elapsed {
			unchanged := response.Discard()
			response = nil // which has the list
			p.endTurn()
			beforeAwait()
			why, written = p.await(v, timer)
			control.SetWriteDeadline(time.Now().Add(answerTimeout))
			if p.MayGo != nil && why != gone {
				if err := p.MayGo(); err != nil {
					counts.count(revoked)
					return err
				}
			}
			if why == changed || why == elapsed {
				continue
			}
			counts.count(why)
			unchanged.Write(w, true) // also to a client that has only closed its side: it looks like one that is gone
			return nil
		}
		if why != "" {
			counts.count(why)
		}
		slow := time.AfterFunc(writeTurn, p.endTurn)
		err = apart.Run(func() error { return response.Write(w, false) })
		slow.Stop()
		if err == nil && why == changed {
			counts.observeLag(written)
		}
		return err
	}
}

// beforeAwait is called before the wait for news. Tests replace it.
var beforeAwait = func() {}

// look takes a turn, until endTurn, and gets the list. The first look must begin before the end of the watch.
func (p *Watch) look(why outcome) (response *eventlist.Response, err error) {
	begin, latest := time.Now(), p.until
	if why != "" {
		latest = begin.Add(answerTimeout)
	}
	ctx, cancel := context.WithDeadline(p.ctx, latest)
	err = eventlist.QueueError(p.ctx, p.lists.turns.Acquire(ctx, p.caller.UserID))
	cancel()
	p.QueueWait += time.Since(begin)
	if err != nil {
		return nil, err
	}
	p.turn.Store(true)
	err = apart.Run(func() (err error) {
		response, err = p.get()
		return err
	})
	return response, err
}

func (p *Watch) endTurn() {
	if p.turn.CompareAndSwap(true, false) {
		p.lists.turns.Release(p.caller.UserID, 1)
	}
}

// await waits until the world changes, and returns the time of the write if this instance made it, or until the watch ends otherwise.
func (p *Watch) await(v *watcher, timer *time.Timer) (why outcome, written time.Time) {
	begin := time.Now()
	p.lists.counts.watching.Add(1)
	defer func() {
		p.lists.counts.watching.Add(-1)
		p.NewsWait += time.Since(begin)
	}()
	select {
	case written = <-v.changed:
		return changed, written
	case <-timer.C:
		return elapsed, time.Time{}
	case <-p.lists.hub.stop:
		return stopped, time.Time{}
	case <-p.ctx.Done():
		return gone, time.Time{}
	}
}
