package eventlist

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"worldevents/gen"
	"worldevents/models"
)

// addEvent creates an event of the world "plaza".
func addEvent(t *testing.T, store *models.Store, caller models.Caller) models.ID {
	t.Helper()
	id, err := store.CreateEvent(t.Context(), caller, models.Event{WorldID: "plaza", Name: "n", ScheduledAt: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

var plaza = Query{World: "plaza"}

// awaiting is a request that waits.
type awaiting struct {
	*httptest.ResponseRecorder
	err  error
	done chan struct{}

	readDeadline time.Time
}

// SetReadDeadline is for http.ResponseController.
func (a *awaiting) SetReadDeadline(t time.Time) error {
	a.readDeadline = t
	return nil
}

// begin has a request wait for news of a list that has the ETag, and returns at once.
func begin(l *Lists, caller models.Caller, q Query, etag string, wait time.Duration) *awaiting {
	return beginWith(context.Background(), l, caller, q, etag, wait)
}

func beginWith(ctx context.Context, l *Lists, caller models.Caller, q Query, etag string, wait time.Duration) *awaiting {
	a := &awaiting{ResponseRecorder: httptest.NewRecorder(), done: make(chan struct{}), readDeadline: time.Now().Add(10 * time.Second)}
	go func() {
		defer close(a.done)
		var list *Waiting
		list, a.err = l.Wait(ctx, q, Caller{Caller: caller, IfNoneMatch: []string{etag}}, time.Now().Add(wait))
		if a.err == nil {
			a.err = list.Write(a)
		}
	}()
	return a
}

// is fails the test unless the response comes, with this status.
func (a *awaiting) is(t *testing.T, status int) {
	t.Helper()
	select {
	case <-a.done:
	case <-time.After(time.Minute):
		t.Fatal("no response")
	}
	if a.err != nil || a.Code != status {
		t.Errorf("%d %v, want %d", a.Code, a.err, status)
	}
}

// waits fails the test unless so many requests wait.
func (h *hub) waits(t *testing.T, n int) {
	t.Helper()
	synctest.Wait()
	if waiting := h.counts.Waiting(); waiting != n {
		t.Fatalf("%d wait instead of %d", waiting, n)
	}
}

// holdReading has the next reading stop when it has read, which closes read, until goOn is closed.
func holdReading(t *testing.T) (read, goOn chan struct{}) {
	read, goOn = make(chan struct{}), make(chan struct{})
	var calls atomic.Int32
	hold := func() {
		if calls.Add(1) == 2 { // the first is before the reading
			close(read)
			<-goOn
		}
	}
	atHandOver.Store(&hold)
	t.Cleanup(func() { atHandOver.Store(nil) })
	return read, goOn
}

// A reading that was running when a request came may be too old for it: it neither ends its waiting nor says that the list
// is still the same.
func TestHubNewcomerDuringReading(t *testing.T) {
	testHub(t, func(t *testing.T, l *Lists, other *models.Store) {
		alice, bob := signIn(t, l.store, "alice"), signIn(t, l.store, "bob")
		id := addEvent(t, l.store, alice)
		etag := get(t, l, alice, plaza).Header().Get("Etag")
		first := begin(l, alice, plaza, etag, 20*time.Second)
		l.hub.waits(t, 1)

		read, goOn := holdReading(t)
		l.hub.hinted(models.Notified, models.EventHint(id))
		<-read
		if err := other.JoinEvent(t.Context(), bob, id); err != nil {
			t.Fatal(err)
		}
		second := begin(l, bob, plaza, etag, 20*time.Second)
		l.hub.waits(t, 2)
		close(goOn)
		synctest.Wait()
		for _, v := range l.hub.watched[readKey{world: "plaza"}].watchers {
			if v.caller == bob && v.verified {
				t.Error("a reading that was too old has verified a newcomer")
			}
		}
		second.is(t, 200) // once the list is swept
		first.is(t, 200)
	})
}

// Who comes with the old list while a changed one is read gets that soon, as after a hint, and not when newcomers are read for.
func TestHubNewcomerWithOldList(t *testing.T) {
	testHub(t, func(t *testing.T, l *Lists, _ *models.Store) {
		alice, bob := signIn(t, l.store, "alice"), signIn(t, l.store, "bob")
		id := addEvent(t, l.store, alice)
		etag := get(t, l, alice, plaza).Header().Get("Etag")
		first := begin(l, alice, plaza, etag, 20*time.Second)
		l.hub.waits(t, 1)
		read, goOn := holdReading(t)
		if err := l.store.JoinEvent(t.Context(), bob, id); err != nil {
			t.Fatal(err)
		}
		<-read
		second := begin(l, bob, plaza, etag, 20*time.Second)
		l.hub.waits(t, 2)
		close(goOn)
		first.is(t, 200)
		second.is(t, 200)
		if hints, newcomers := l.hub.counts.readings[notified].Load(), l.hub.counts.readings[arrival].Load(); hints != 1 || newcomers != 0 {
			t.Errorf("%d readings after hints, %d for newcomers", hints, newcomers)
		}
	})
}

// Those who come one after the other cost few readings, however long that takes: the first has read the list.
func TestHubNewcomersAreReadFor(t *testing.T) {
	testHub(t, func(t *testing.T, l *Lists, _ *models.Store) {
		alice := signIn(t, l.store, "alice")
		addEvent(t, l.store, alice)
		etag := get(t, l, alice, plaza).Header().Get("Etag")
		var all []*awaiting
		for from := time.Now(); time.Since(from) < 5*time.Second; time.Sleep(40 * time.Millisecond) {
			all = append(all, begin(l, alice, plaza, etag, 20*time.Second))
		}
		if n := l.hub.counts.readings[arrival].Load(); n < 1 || n > 3 { // one of alice before, and one that began when it had ended
			t.Errorf("%d readings for newcomers", n)
		}
		l.Stop()
		for _, a := range all {
			a.is(t, 304)
		}
	})
}

// Hints that came while a list was read are looked through, and count as a hit once they are too many to be remembered.
func TestHintIndex(t *testing.T) {
	w := &watchedList{hints: []models.Hint{1, 2}}
	x := newHintIndex()
	x.add(w)
	x.note(2)
	since := x.noted
	for range ringSize {
		if x.hintedSince(w, since) {
			t.Fatal("a hit without a hint")
		}
		x.note(3)
	}
	if x.hintedSince(w, since) {
		t.Error("a hit while all are remembered")
	}
	x.note(3)
	if !x.hintedSince(w, since) {
		t.Error("hints that are forgotten are no hit")
	}
	since = x.noted
	if lists := x.note(1); len(lists) != 1 || lists[0] != w {
		t.Error(lists)
	}
	for range ringSize - 1 {
		x.note(3)
	}
	if !x.hintedSince(w, since) {
		t.Error("the oldest hint that is remembered is no hit")
	}
	x.remove(w)
	if x.hintedSince(w, since) || len(x.lists)+x.events+len(x.byUser) > 0 {
		t.Error("something is left")
	}
}

// A list for whose events there is no room is not waited for: not from the first, and not once it has grown.
func TestHubRoom(t *testing.T) {
	for _, test := range []struct {
		name string
		most int
		take func(x *hintIndex, user models.ID, n int)
	}{
		{"of the user", maxIndexed / shares, func(x *hintIndex, user models.ID, n int) { x.byUser[user] += n }},
		{"of all", maxIndexed, func(x *hintIndex, _ models.ID, n int) { x.events += n }},
	} {
		t.Run(test.name, func(t *testing.T) {
			testHub(t, func(t *testing.T, l *Lists, _ *models.Store) {
				alice, bob := signIn(t, l.store, "alice"), signIn(t, l.store, "bob")
				addEvent(t, l.store, alice)
				etag := get(t, l, alice, plaza).Header().Get("Etag")
				take := func(n int) {
					l.hub.mu.Lock()
					defer l.hub.mu.Unlock()
					test.take(&l.hub.index, alice.UserID, n)
				}
				take(test.most - 1) // the world and its event count two
				early := begin(l, alice, plaza, etag, 20*time.Second)
				early.is(t, 304)
				if early.Header().Get("Retry-After") == "" {
					t.Error("a 304 that came early does not say so")
				}
				take(-1)
				held := begin(l, alice, plaza, etag, 20*time.Second)
				l.hub.waits(t, 1)
				addEvent(t, l.store, bob)
				held.is(t, 200)
				etag = get(t, l, alice, plaza).Header().Get("Etag")
				if held.Header().Get("Etag") != etag {
					t.Error("another list")
				}
				l.hub.mu.Lock()
				if x := &l.hub.index; x.events > maxIndexed || x.byUser[alice.UserID] > test.most {
					t.Errorf("%d events, %d of alice", x.events, x.byUser[alice.UserID])
				}
				l.hub.mu.Unlock()
				take(2 - test.most)
			})
		})
	}
}

// The time that a request has for the database does not pass while it waits.
func TestHubDatabaseTimeAfterWaiting(t *testing.T) {
	testHub(t, func(t *testing.T, l *Lists, _ *models.Store) {
		alice := signIn(t, l.store, "alice")
		addEvent(t, l.store, alice)
		etag := get(t, l, alice, plaza).Header().Get("Etag")
		deadline := time.Now().Add(time.Second)
		a := beginWith(context.WithValue(t.Context(), models.Deadline{}, deadline), l, alice, plaza, etag, 20*time.Second)
		l.hub.waits(t, 1)
		time.Sleep(time.Until(deadline))
		room := func(n int) {
			l.hub.mu.Lock()
			defer l.hub.mu.Unlock()
			l.hub.index.events -= n
		}
		room(-maxIndexed) // the list is no longer held for those who wait: each reads it
		addEvent(t, l.store, alice)
		a.is(t, 200)
		room(maxIndexed)
	})
}

// While those who have waited have their responses written, few at once, others are served.
func TestHubWritesFewAtOnce(t *testing.T) {
	testHub(t, func(t *testing.T, l *Lists, _ *models.Store) {
		alice := signIn(t, l.store, "alice")
		addEvent(t, l.store, alice)
		etag := get(t, l, alice, plaza).Header().Get("Etag")
		var writing, most atomic.Int32
		goOn := make(chan struct{})
		l.Lag = func(time.Duration) { // called while the response has its place
			most.Store(max(most.Load(), writing.Add(1)))
			<-goOn
			writing.Add(-1)
		}
		ctx, hangUp := context.WithCancel(t.Context())
		all := []*awaiting{beginWith(ctx, l, alice, plaza, etag, 20*time.Second)}
		l.hub.waits(t, 1)
		for i := range 99 {
			caller := signIn(t, l.store, fmt.Sprint("user ", i%9))
			all = append(all, begin(l, caller, plaza, etag, 20*time.Second))
		}
		l.hub.waits(t, 100)
		addEvent(t, l.store, alice)
		synctest.Wait()
		hangUp() // while its news waits for its turn
		synctest.Wait()
		get(t, l, alice, plaza)
		get(t, l, alice, Query{World: "elsewhere"})
		addEvent(t, l.store, alice)
		close(goOn)
		for _, a := range all {
			a.is(t, 200)
		}
		if n := most.Load(); n != 4 {
			t.Errorf("%d were written at once", n)
		}
	})
}

// Who waits for many lists, all of which are written, has their turns of reading and takes none from others.
func TestHubTurnsOfReading(t *testing.T) {
	testHub(t, func(t *testing.T, l *Lists, _ *models.Store) {
		alice, bob := signIn(t, l.store, "alice"), signIn(t, l.store, "bob")
		addEvent(t, l.store, alice)
		const lists = 100
		var all []*awaiting
		for i := range lists {
			most := int32(10 + i)
			q := Query{World: "plaza", Raw: fmt.Sprint("limit=", most), Params: gen.ListEventsParams{Limit: &most}}
			all = append(all, begin(l, alice, q, get(t, l, alice, q).Header().Get("Etag"), 20*time.Second))
		}
		elsewhere := Query{World: "elsewhere"}
		his := begin(l, bob, elsewhere, get(t, l, bob, elsewhere).Header().Get("Etag"), 20*time.Second)
		l.hub.waits(t, lists+1)
		for i := range maxRereads {
			l.held.rereads.Try(models.ID{byte(i)}, 1)
		}
		addEvent(t, l.store, alice)
		if _, err := l.store.CreateEvent(t.Context(), bob, models.Event{WorldID: "elsewhere", Name: "n", ScheduledAt: time.Now()}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		before := l.hub.counts.readings[ownWrite].Load()
		test := models.ID{maxRereads}
		l.held.rereads.Await(func(models.ID) {}, test) // the third turn
		l.held.rereads.Release(models.ID{0}, 1)
		his.is(t, 200)
		if n := l.hub.counts.readings[ownWrite].Load() - before; n != 2 {
			t.Errorf("%d lists were read in two turns", n)
		}
		for i := range maxRereads {
			l.held.rereads.Release(models.ID{byte(i + 1)}, 1)
		}
		for _, a := range all {
			a.is(t, 200)
		}
	})
}

// A wait that nothing has ended still looks up the session at its end. Those who end together are looked up together.
func TestHubSessionsAtTheEnd(t *testing.T) {
	testHub(t, func(t *testing.T, l *Lists, other *models.Store) {
		alice := signIn(t, l.store, "alice")
		addEvent(t, l.store, alice)
		limit := func(n int) Query {
			most := int32(n)
			return Query{World: "plaza", Raw: fmt.Sprint("limit=", n), Params: gen.ListEventsParams{Limit: &most}}
		}
		gone := signIn(t, l.store, "gone")
		var staying, leaving []*awaiting
		var mu sync.Mutex
		var wait sync.WaitGroup
		for i := range 8 { // each the first of its list, so that it is verified at once
			wait.Go(func() {
				etag := get(t, l, alice, limit(10+i)).Header().Get("Etag")
				mu.Lock()
				defer mu.Unlock()
				if i%2 == 0 {
					staying = append(staying, begin(l, alice, limit(10+i), etag, 3*time.Second))
				} else {
					leaving = append(leaving, begin(l, gone, limit(10+i), etag, 3*time.Second))
				}
			})
		}
		wait.Wait()
		l.hub.waits(t, 8)
		if _, err := other.RevokeSession(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
		for _, a := range staying {
			a.is(t, 304)
		}
		for _, a := range leaving {
			<-a.done
			if !errors.Is(a.err, models.ErrSignedOut) {
				t.Errorf("%d %v", a.Code, a.err)
			}
		}
	})
}

// What net/http gives the client to send the request in does not end the wait.
func TestWaitingIsNotCutShort(t *testing.T) {
	testHub(t, func(t *testing.T, l *Lists, _ *models.Store) {
		alice := signIn(t, l.store, "alice")
		addEvent(t, l.store, alice)
		a := begin(l, alice, plaza, get(t, l, alice, plaza).Header().Get("Etag"), time.Second)
		l.hub.waits(t, 1)
		if !a.readDeadline.IsZero() {
			t.Errorf("the connection is read until %v", a.readDeadline)
		}
		a.is(t, 304)
	})
}

// A panic of the reading reaches the goroutine that can respond to it, although another one reads.
func TestWaitingPanic(t *testing.T) {
	defer func() {
		if text := fmt.Sprint(recover()); !strings.Contains(text, "nil pointer") || !strings.Contains(text, "eventlist.(*Waiting)") {
			t.Errorf("recovered %q", text)
		}
	}()
	(&Waiting{ctx: context.Background()}).get()
}
