package model

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"worldevents/models"
)

// operator changes what is stored behind the service's back, one statement after the other.
type operator struct {
	*round
	draw  draw
	crowd []*user
}

func (o *operator) run() {
	var err error
	if o.crowd, err = o.site.crowd(o.state, 600, 60); err != nil {
		o.keep(err)
		return
	}
	for range roundRequests / 4 { // else worlds would grow larger the slower the machine is
		if !o.going() {
			return
		}
		w := some(o.draw, o.worlds)
		switch o.draw(12) {
		case 0, 1:
			o.rename(w)
		case 2, 3:
			o.removeEvent(w)
		case 4:
			o.removeUser(w)
		case 5:
			o.bulk(w)
		case 6:
			o.fillOne(w)
		case 7:
			o.loseMarks()
		case 8:
			o.prune()
		default:
			o.moveOne(w)
		}
		time.Sleep(time.Duration(o.draw(50)) * time.Millisecond) // the pace of an operator: nothing waits for it
	}
}

func (o *operator) event(w *world) *event {
	o.Lock()
	defer o.Unlock()
	if e := some(o.draw, w.events); e != nil && e.id != "" && !e.retried && e.life.alive() {
		return e
	}
	return nil
}

// rename gives somebody of the crowd or a client a new name, or the first one back. Which it is shows to others from the call on.
func (o *operator) rename(w *world) {
	var u *user
	name := fmt.Sprintf("renamed %d %s", o.serial(), strings.Repeat("é", 40))
	o.locked(func() {
		u = some(o.draw, o.users)
		if first := u.names[0].name; first != u.name() && o.draw(2) == 0 {
			name = first
		}
		if u.life.alive() {
			o.state.rename(u, name, now(), never)
		}
	})
	if !u.life.alive() { // nobody else ends it
		return
	}
	call := now()
	o.keep(o.change("UPDATE users SET username = ? WHERE id = ?", name, u.id))
	o.locked(func() {
		n := len(u.names)
		u.names[n-1].life.know()
		u.names[n-2].life.untilBy = now()
		w.note("operator", call, "rename %s to %q", u.id, name)
	})
}

func (o *operator) removeEvent(w *world) {
	e := o.event(w)
	if e == nil {
		return
	}
	call := now()
	o.locked(func() { e.remove(call, never) })
	if id, _ := models.ParseID(e.id); o.draw(3) == 0 {
		o.keep(o.change("DELETE FROM events WHERE id = ?", e.id))
	} else {
		store := o.instances[o.draw(2)].Store
		o.keep(o.insist(func() error {
			_, err := store.RemoveEvent(context.Background(), id)
			if o.breaker != nil && errors.Is(err, models.ErrNoEvent) {
				return nil // a try before this one has removed it
			}
			return err
		}))
	}
	o.locked(func() {
		e.ended(now())
		w.note("operator", call, "remove event %s", e.id)
	})
}

// ended says when an event and its RSVPs were gone, whose end has begun.
func (e *event) ended(by int64) {
	e.life.untilBy = min(e.life.untilBy, by)
	for _, all := range e.rsvps {
		last := &all[len(all)-1].life
		last.untilBy = min(last.untilBy, by)
	}
}

// removeUser removes one of the crowd, or a client.
func (o *operator) removeUser(w *world) {
	u := some(o.draw, o.crowd)
	call := now()
	o.locked(func() {
		if u == nil || o.draw(4) == 0 {
			u = some(o.draw, o.users)
		}
		if u.life.alive() {
			o.state.removeUser(u, call, never)
		}
	})
	if u.life.untilBy != never || u.life.until != call {
		return
	}
	o.keep(o.change("DELETE FROM users WHERE id = ?", u.id))
	o.locked(func() {
		by := now()
		u.life.untilBy, u.names[len(u.names)-1].life.untilBy = by, by
		for _, w := range o.worlds {
			for _, e := range w.events {
				if all := e.rsvps[u]; len(all) > 0 {
					last := &all[len(all)-1].life
					last.untilBy = min(last.untilBy, by)
				}
			}
		}
		w.note("operator", call, "remove user %s", u.id)
	})
}

// bulk makes many events at one instant, or between others.
func (o *operator) bulk(w *world) {
	n := some(o.draw, []int{1, 100, 127, 128, 129, 300})
	if o.locked(func() { n = min(n, 1500-len(w.events)) }); n < 1 {
		return
	}
	call := now()
	o.keep(o.addBulk(w, bulk{
		n: n, at: noon + int64(o.draw(20)*1000+o.draw(2)*500), step: int64(o.draw(2)),
		text: strings.Repeat("t", some(o.draw, []int{0, 1000, 4000})), rank: o.draw(1 << 31),
	}))
	o.locked(func() { w.note("operator", call, "%d events", n) })
}

// fillOne has many of the crowd join an event.
func (o *operator) fillOne(w *world) {
	e := o.event(w)
	if e == nil {
		return
	}
	var alive []*user
	for _, u := range o.crowd[:1+o.draw(len(o.crowd))] {
		if u.life.alive() {
			alive = append(alive, u)
		}
	}
	call := now()
	o.keep(o.fill(e, alive, some(o.draw, []time.Time{past, lately(len(alive))}), o.draw(2) == 0))
	o.locked(func() { w.note("operator", call, "%d join %s", len(alive), e.id) })
}

// moveOne has one of the crowd leave an event and join again, last of all.
func (o *operator) moveOne(w *world) {
	if e := o.event(w); e != nil {
		o.move(e, some(o.draw, o.crowd))
	}
}

func (o *operator) move(e *event, u *user) {
	var gone *rsvp
	if o.locked(func() { gone = e.part(u) }); gone == nil {
		return
	}
	call := now()
	o.keep(o.deleteRSVP(e, u))
	o.locked(func() { gone.life.untilBy = now() })
	o.keep(o.fill(e, []*user{u}, lately(0), false))
	o.locked(func() { e.world.note("operator", call, "%s leaves %s and joins", u.id, e.id) })
}

// loseMarks does what a crash of PostgreSQL does: what is not logged is empty then.
func (o *operator) loseMarks() {
	if o.Dialect == "postgres" {
		o.keep(o.change("TRUNCATE incarnation, changes"))
	}
}

// prune deletes what is left of removed events, and all marks that may go, as if a day had passed. A sweep that is cut short is one
// that was killed.
func (o *operator) prune() {
	if o.Dialect == "postgres" {
		o.keep(o.change("UPDATE incarnation SET next_since = next_since - interval '1 day'"))
	}
	store := o.instances[o.draw(2)].Store
	o.keep(o.insist(func() error {
		_, err := store.PruneChanges(context.Background())
		return err
	}))
	ctx, cancel := context.WithCancel(context.Background()) // a deadline would sometimes pass in the database first
	defer cancel()
	time.AfterFunc(time.Duration(o.draw(20))*time.Millisecond, cancel)
	o.keep(o.insist(func() error {
		if err := store.SweepEvents(ctx); ctx.Err() == nil {
			return err
		}
		return nil
	}))
}
