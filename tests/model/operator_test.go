package model

import (
	"fmt"
	"strings"
	"time"
)

// rows inserts rows, a hundred with each statement, which may have done its work before it fails. values is the SQL of one row. With
// more of them SQLite takes longer for each: it goes through the cursors that a statement has opened, of which each subquery is one.
func (s *site) rows(into, values string, rows [][]any) error {
	const parameters = 400
	columns := strings.Count(values, "?")
	for len(rows) > 0 {
		n := min(len(rows), parameters/columns)
		args := make([]any, 0, n*columns)
		for _, row := range rows[:n] {
			args = append(args, row...)
		}
		if err := s.change("INSERT INTO "+into+" VALUES "+strings.Repeat(values+", ", n-1)+values+" ON CONFLICT DO NOTHING", args...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// change runs a statement, again when it deadlocks with the service's.
func (s *site) change(statement string, args ...any) error {
	return s.insist(func() (err error) {
		for range 10 {
			if _, err = s.TryExec(statement, args...); err == nil || !strings.Contains(err.Error(), "deadlock") {
				return err
			}
		}
		return err
	})
}

// id makes an id whose order is that of rank, and that no other has.
func (s *site) id(rank int) string {
	return fmt.Sprintf("%08x-0000-7000-8000-%012x", rank, s.serial())
}

// crowd makes users who never ask for anything, with names of so many code points.
func (s *site) crowd(known *state, n, length int) ([]*user, error) {
	rows := make([][]any, n)
	users := make([]*user, n)
	known.locked(func() {
		for i := range rows {
			id := s.id(i)
			name := fmt.Sprintf("crowd %s ", id[24:])
			name += strings.Repeat("é", max(0, length-len(name)))
			users[i] = known.addUser(id, name, "")
			users[i].number = -s.serial() // against the order of making
			rows[i] = []any{users[i].number, id, name, past}
		}
	})
	into := "users (number, id, username, created_at)"
	if s.Dialect == "postgres" {
		into += " OVERRIDING SYSTEM VALUE"
	}
	return users, s.rows(into, "(?, ?, ?, ?)", rows)
}

// past dates what is written behind the service's back before everything that clients do.
var past = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// lately dates n RSVPs, a microsecond apart, after all that was written before, and waits until the last of them is over: nobody joins in
// the future. That those who join later stand later is what the service relies on.
func lately(n int) time.Time {
	first := time.Now().UTC().Truncate(time.Microsecond).Add(time.Microsecond)
	time.Sleep(time.Duration(n) * time.Microsecond)
	return first
}

// bulk is many events at once, the instants step milliseconds apart.
type bulk struct {
	n         int
	at, step  int64
	text      string // begins each description
	backwards bool   // the ids run against the order of making
	rank      int
}

// addBulk makes events without RSVPs.
func (s *site) addBulk(w *world, b bulk) error {
	rows := make([][]any, b.n)
	made := make([]*event, b.n)
	w.known.locked(func() {
		call := now()
		for i := range rows {
			rank := b.rank + i
			if b.backwards {
				rank = b.rank + b.n - i
			}
			id := s.id(rank)
			name, description, at := "bulk "+id, fmt.Sprintf("%s%d", b.text, i), b.at+int64(i)*b.step
			rows[i] = []any{id, w.name, name, description, time.UnixMilli(at).UTC(), past}
			made[i] = w.addEvent(id, name, description, at, unborn(call))
		}
	})
	err := s.rows("events (id, world_id, name, description, scheduled_at, created_at)", "(?, ?, ?, ?, ?, ?)", rows)
	w.known.locked(func() {
		for _, e := range made {
			e.life.know()
		}
	})
	return err
}

// fill adds RSVPs of a crowd to an event: all at one instant, or a microsecond apart.
func (s *site) fill(e *event, crowd []*user, first time.Time, apart bool) error {
	var rows [][]any
	var made []*rsvp
	e.world.known.locked(func() {
		call := now()
		for i, u := range crowd {
			at := first
			if apart {
				at = at.Add(time.Duration(i) * time.Microsecond)
			}
			if r := e.join(u, call, at.UnixNano(), at.UnixNano()); r != nil {
				made = append(made, r)
				rows = append(rows, []any{e.id, u.id, u.name(), at})
			}
		}
	})
	err := s.rows("rsvps (event_number, user_number, username, created_at)",
		"((SELECT number FROM events WHERE id = ?), (SELECT number FROM users WHERE id = ?), ?, ?)", rows)
	e.world.known.locked(func() {
		for _, r := range made {
			r.life.know()
		}
	})
	return err
}

// deleteRSVP deletes an RSVP behind the service's back.
func (s *site) deleteRSVP(e *event, u *user) error {
	return s.change(`DELETE FROM rsvps WHERE event_number = (SELECT number FROM events WHERE id = ?)
		AND user_number = (SELECT number FROM users WHERE id = ?)`, e.id, u.id)
}

// wipe empties the database.
func (s *site) wipe() error {
	if s.Dialect == "postgres" {
		return s.change("TRUNCATE rsvps, events, sessions, users")
	}
	for _, table := range []string{"rsvps", "events", "users"} {
		if err := s.change("DELETE FROM " + table); err != nil {
			return err
		}
	}
	return nil
}
