package eventlist

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"worldevents/models"
)

const (
	// answerTimeout is how long a response to a request that has waited may take.
	answerTimeout = 30 * time.Second
)

// WaitOptions bound the requests that wait for news.
type WaitOptions struct {
	// MaxWaiting is how many wait at once; more get the response at once.
	MaxWaiting int
	// MaxAnswering bounds how many of them begin to wait, and how many have their responses written, at once. They are
	// beside the requests in flight. There are other bounds besides, so that it may be large.
	MaxAnswering int
}

// Listen begins to hear of changes, of this instance and of others. It must be called once, before requests are served. Log
// receives a line when the changes of other instances begin to be heard of, and when they no longer are.
func (l *Lists) Listen(log *slog.Logger) { l.store.Subscribe(log, l.hub.hinted) }

// Stop ends all waiting at once, and lets nobody wait any more.
func (l *Lists) Stop() { l.hub.stop() }

// Waiting is a response that waits while the client has the list.
type Waiting struct {
	ctx    context.Context
	lists  *Lists
	query  Query
	span   models.ListOptions
	key    readKey
	caller Caller
	tags   []string
	until  time.Time
	heard  <-chan struct{} // closed when the client sends more
	end    func()          // gives the place or the turn back that the request has, nil without one

	// Waited is for how long the response waited for news. It is known once it has been written.
	Waited time.Duration
	// Queued is for how long it waited for one of few places to begin in, and for its turn to be written.
	Queued time.Duration
}

// Wait returns a response that waits until the list is no longer the one of If-None-Match, or until then. It returns
// ErrCursor.
func (l *Lists) Wait(ctx context.Context, q Query, caller Caller, until time.Time) (*Waiting, error) {
	span, err := newSpan(q)
	if err != nil {
		return nil, err
	}
	tags := entityTags(caller.IfNoneMatch)
	if len(tags) > 0 {
		caller.IfNoneMatch = tags // which do not keep the lines
	}
	return &Waiting{
		ctx: ctx, lists: l, query: q, span: span, key: newReadKey(q.World, q.Raw), caller: caller, tags: tags, until: until,
	}, nil
}

// Write waits, and then writes the response. Besides the errors of Get and Response.Write it returns models.ErrSignedOut
// when the session was revoked meanwhile.
func (p *Waiting) Write(w http.ResponseWriter) error {
	h := p.lists.hub
	if len(p.tags) == 0 {
		return p.writeList(w, false)
	}
	if ok, stopping := h.enter(p.caller.UserID); !ok {
		if stopping {
			h.counts.outcomes[stopped].Add(1)
		} else {
			h.counts.outcomes[full].Add(1)
		}
		return p.writeList(w, true)
	}
	var v *watcher // gives the place of enter back itself
	defer func() {
		if v == nil {
			h.exit(p.caller.UserID)
		}
	}()
	p.heard = p.lists.Leave(p.ctx, p.endTurn)
	defer p.endTurn()
	control := http.NewResponseController(w)
	control.SetReadDeadline(time.Time{}) // that of the request; it would end the wait

	v, response, err := p.begin()
	if v == nil {
		control.SetWriteDeadline(time.Now().Add(answerTimeout))
		if err != nil {
			return err
		}
		return response.Write(w)
	}
	n, why := p.wait(v)
	p.end = func() { p.lists.held.answering.Release(p.caller.UserID, 1) }
	// The scheduler runs a goroutine that has just been woken at once, and does not look at others while each wakes the next.
	// All that have become ready meanwhile are ahead of one that yields.
	runtime.Gosched()
	h.counts.outcomes[why].Add(1)
	control.SetWriteDeadline(time.Now().Add(answerTimeout))
	if why == interrupted {
		w.Header().Set("Connection", "close")
	}
	switch {
	case n.err != nil:
		return fmt.Errorf("list events of world %q: %w", p.key.world, n.err)
	case n.read != nil:
		response := &Response{sharedRead: n.read, ctx: p.renewed(), lists: p.lists, key: p.key, span: p.span, caller: p.caller, news: true}
		err := apart(func() error { return response.Write(w) })
		if err == nil && !n.hinted.IsZero() {
			p.lists.Lag(time.Since(n.hinted))
		}
		return err
	case n.etag == "":
		return apart(func() error { return p.writeList(w, n.stopped || why == interrupted) })
	}
	p.lists.count(wayUnchangedMemory)
	writeNotModified(w, n.etag, n.link, why != elapsed)
	return nil
}

// begin has the request wait, or returns the response for a client who has another list, or for whom there is no room.
func (p *Waiting) begin() (*watcher, *Response, error) {
	h := p.lists.hub
	ctx, cancel := context.WithDeadline(p.ctx, p.until)
	err := p.takePlace(ctx)
	cancel()
	if err != nil {
		return nil, nil, err
	}
	if v := h.join(p.key, p.caller.Caller, p.tags); v != nil {
		p.endTurn()
		return v, nil, nil
	}
	response, err := p.get()
	if err != nil || response.etag == "" || !slices.Contains(p.tags, opaqueTag(response.etag)) {
		return nil, response, err
	}
	v := h.register(p.key, p.span, response.sharedRead, p.caller.Caller, p.tags)
	if v == nil {
		h.counts.outcomes[full].Add(1)
		response.early = true
		return nil, response, nil
	}
	response.endRead()
	response.release()
	p.endTurn()
	return v, nil, nil
}

// get is Lists.Get apart.
func (p *Waiting) get() (response *Response, err error) {
	caller := p.caller
	caller.watches = true
	err = apart(func() (err error) {
		response, err = p.lists.Get(p.renewed(), p.query, caller)
		return err
	})
	return response, err
}

// apart runs fn on another stack. Reading and writing lists make a stack large. A connection whose requests wait, one after the
// other, would keep it: the runtime makes no stack smaller of which more than a quarter is in use.
func apart(fn func() error) (err error) {
	var panicked any
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				panicked = fmt.Sprintf("%v\n%s", r, debug.Stack())
			}
		}()
		err = fn()
	}()
	<-done
	if panicked != nil {
		panic(panicked) // on the goroutine that can respond to it
	}
	return err
}

// wait waits for news, and for the turn to respond.
func (p *Waiting) wait(v *watcher) (n news, why outcome) {
	h := p.lists.hub
	begin := time.Now()
	timer := time.NewTimer(p.until.Sub(begin))
	defer timer.Stop()
	var woken bool
	select {
	case n = <-v.news:
		woken = true
	case <-timer.C:
		n, woken = h.leave(v)
		why = elapsed
	case <-p.ctx.Done():
		n, woken = h.leave(v)
		why = gone
	case <-p.heard:
		if why = interrupted; p.isGone() {
			why = gone
		}
		n, woken = h.leave(v)
	}
	p.Waited = time.Since(begin)
	switch {
	case n.stopped:
		return n, stopped
	case n.err != nil:
		return n, revoked
	case woken:
		return n, changed
	case why == elapsed && n.etag != "":
		// A database that does not respond changes nothing.
		if err := h.sessions.check(p.caller.Caller); errors.Is(err, models.ErrSignedOut) {
			n, why = news{err: err}, revoked
		}
	}
	turn := make(chan news, 1)
	h.answer(p.caller.Caller, turn, n)
	n = <-turn
	p.Queued += time.Since(begin) - p.Waited
	return n, why
}

// goodbye is how long net/http may take to notice that what a client has sent was a TLS alert: it closes the connection.
const goodbye = 500 * time.Millisecond

// isGone reports whether the client, of whom something has come, has hung up.
func (p *Waiting) isGone() bool {
	select {
	case <-p.ctx.Done():
		return true
	case <-time.After(goodbye):
		return false
	}
}

// writeList writes the list without waiting. With early a 304 says when to ask again.
func (p *Waiting) writeList(w http.ResponseWriter, early bool) error {
	response, err := p.lists.Get(p.renewed(), p.query, p.caller)
	if err != nil {
		return err
	}
	response.early = early
	return response.Write(w)
}

// renewed is the request's context with the store's whole timeout.
func (p *Waiting) renewed() context.Context {
	return context.WithValue(p.ctx, models.Deadline{}, time.Now().Add(p.lists.store.Timeout()))
}

// takePlace waits for one of few places for requests that begin to wait. It returns models.ErrBusy if there is none before the
// deadline of ctx, and ErrClientGone.
func (p *Waiting) takePlace(ctx context.Context) error {
	begin := time.Now()
	err := waitError(p.ctx, p.lists.held.beginning.Acquire(ctx, p.caller.UserID))
	p.Queued += time.Since(begin)
	if err == nil {
		p.end = func() { p.lists.held.beginning.Release(p.caller.UserID, 1) }
	}
	return err
}

func (p *Waiting) endTurn() {
	if p.end != nil {
		p.end()
		p.end = nil
	}
}
