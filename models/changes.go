package models

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"gorm.io/gorm"

	"worldevents/models/internal/batch"
	"worldevents/models/internal/dberr"
	"worldevents/models/internal/notify"
	"worldevents/models/internal/postgres"
)

// Subscribe has fn called after each write of this Store that may have changed a list, with own set. The write returns after fn, so fn must
// be quick. On PostgreSQL it also listens for other instances, and calls fn after their writes. A needless call costs one query, a lost one
// a delay. There is one subscriber, for the life of the Store.
func (s *Store) Subscribe(fn func(own bool)) {
	s.subscriber.Store(&fn)
	if s.instances != nil {
		s.instances.Listen(func() { fn(false) })
	}
}

// Instances returns the notifications that were sent and received, for metrics; nil on SQLite.
func (s *Store) Instances() *notify.Instances { return s.instances }

// tell notifies the subscriber and other instances that a write may have changed lists.
func (s *Store) tell() {
	if fn := s.subscriber.Load(); fn != nil {
		(*fn)(true)
	}
	if s.instances != nil {
		s.instances.Tell()
	}
}

// maxChangedWorlds bounds the names that WorldsSince returns and the marks that it reads. Beyond it the answer is All: looking at every
// watched list once is cheaper than a longer answer. So the query takes milliseconds, however many marks there are.
const maxChangedWorlds = 10_000

// ChangedWorlds is the answer to Store.WorldsSince.
type ChangedWorlds struct {
	Names []string // worlds whose lists may have changed
	All   bool     // any list may have changed
	Now   Moment   // of the answer
}

// WorldsSince returns which worlds have changed since m. It is one statement with one snapshot, so the next call begins exactly where this
// answer ended. A standby has no marks, so there the answer is All.
func (s *Store) WorldsSince(ctx context.Context, m Moment) (ChangedWorlds, error) {
	var answer ChangedWorlds
	err := s.read(ctx, func(tx *gorm.DB) error {
		answer = ChangedWorlds{}
		d, saw := s.dialect.moments, m.sawOrNothing()
		rows, err := tx.Raw("SELECT "+d.now+", ? UNION ALL SELECT * FROM (?) changed", d.lost(saw), d.worlds(saw, maxChangedWorlds+1)).Rows()
		if err != nil {
			return err
		}
		defer rows.Close()
		for first := true; rows.Next(); first = false {
			var text *string
			var lost bool
			if err := rows.Scan(&text, &lost); err != nil {
				return err
			}
			if !first {
				answer.Names = append(answer.Names, *text)
			} else if answer.All = lost; text != nil {
				answer.Now = NewMoment(*text)
			}
		}
		return rows.Err()
	})
	if isInRecovery(err) {
		return ChangedWorlds{All: true}, nil
	}
	if err != nil {
		return ChangedWorlds{}, fmt.Errorf("look for changed worlds: %w", err)
	}
	if !answer.Now.isAfter(m) || len(answer.Names) > maxChangedWorlds {
		answer.All = true
	}
	if answer.All {
		answer.Names = nil
	}
	return answer, nil
}

// Changes is the answer to Store.ChangedSince.
type Changes struct {
	Changed   bool   // a list of the world may have changed; true in doubt
	Now       Moment // of the answer
	SignedOut map[Caller]bool
}

// question is a call of ChangedSince.
type question struct {
	moment  Moment
	world   string
	callers []Caller
	answer  Changes
}

// ChangedSince returns whether the lists of a world have changed since m, and which callers are not active. It runs one statement that
// begins after the call. Concurrent calls share it, since the round trip costs more than the answer.
func (s *Store) ChangedSince(ctx context.Context, m Moment, world string, callers []Caller) (Changes, error) {
	q := &question{moment: m, world: world, callers: callers}
	err := s.call(ctx, s.reader, s.options.Timeout, func(deadline, giveUp time.Time) (started time.Time, err error) {
		j := &batch.Job{Question: q, Deadline: deadline, Waiting: s.reader.timings.waiting}
		err = s.questions.Apply(ctx, j, giveUp)
		return j.Started(), err
	})
	return q.answer, wrap(err, "look for changes")
}

// questions is the Transactor of calls of ChangedSince.
type questions struct {
	store *Store
	batch.Connections
}

func (questions) Close() {}

func (qs questions) Transact(jobs []*batch.Job) {
	s := qs.store
	limit := time.Now().Add(s.options.Timeout)
	if len(jobs) == 1 {
		limit = jobs[0].Deadline // only its caller waits for it
	}
	if jobs = batch.Begin(jobs); len(jobs) == 0 {
		return
	}
	all := make([]*question, len(jobs))
	for i, j := range jobs {
		all[i] = j.Question.(*question)
	}
	ctx, cancel := context.WithDeadline(context.Background(), limit)
	defer cancel()
	err := postgres.WhileFull(ctx, time.Now().Add(s.options.MaxWait), func() error {
		return dberr.Classify(s.ask(s.reader.gorm.WithContext(ctx), all))
	})
	s.database.note(err) // before any caller returns and comes again
	for _, j := range jobs {
		j.End(err)
	}
}

// ask answers all questions in one statement.
func (s *Store) ask(tx *gorm.DB, all []*question) error {
	asked := make([][2]string, len(all))
	var everybody []Caller
	var askedBy []*question // of each of everybody
	for i, q := range all {
		asked[i] = [2]string{q.moment.sawOrNothing(), q.world}
		for _, caller := range q.callers {
			everybody, askedBy = append(everybody, caller), append(askedBy, q)
		}
	}
	text, err := json.Marshal(asked)
	if err != nil {
		return err
	}
	d := s.dialect.moments
	var now, changed, signedOut *string
	err = scan(tx.Raw("SELECT "+d.now+", (SELECT "+d.numbers+" FROM "+s.dialect.questions+" question WHERE ? OR "+d.changed+
		"), (SELECT "+d.numbers+" FROM "+s.dialect.signedOut()+")",
		string(text), d.lost(gorm.Expr("saw")), callers(everybody)), &now, &changed, &signedOut)
	if isInRecovery(err) { // a standby has no marks
		err = scan(tx.Raw("SELECT (SELECT "+d.numbers+" FROM "+s.dialect.signedOut()+")", callers(everybody)), &signedOut)
	}
	if err != nil {
		return err
	}
	moment := Moment{}
	if now != nil {
		moment = NewMoment(*now)
	}
	for _, q := range all {
		q.answer = Changes{Changed: !moment.isAfter(q.moment), Now: moment}
	}
	for _, n := range numbersIn(signedOut) {
		answer := &askedBy[n-1].answer
		if answer.SignedOut == nil {
			answer.SignedOut = make(map[Caller]bool)
		}
		answer.SignedOut[everybody[n-1]] = true
	}
	for _, n := range numbersIn(changed) {
		all[n-1].answer.Changed = true
	}
	return nil
}
