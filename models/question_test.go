package models_test

import (
	"errors"
	"fmt"
	"testing"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// Those who ask at the same time share statements, and each gets the answer to their own question.
func TestQuestionsShareStatements(t *testing.T) {
	for name, database := range map[string]func(t testing.TB) *servicetest.Database{"sqlite": servicetest.SQLite, "postgres": servicetest.Postgres} {
		t.Run(name, func(t *testing.T) {
			store := openStore(t, database(t).URL)
			alice, bob := addCaller(t, store, "alice"), addCaller(t, store, "bob")
			ask := func(m models.Moment, world string, callers ...models.Caller) models.Changes {
				answer, err := store.ChangedSince(t.Context(), m, world, callers)
				servicetest.Is(t, err, nil, "error")
				return answer
			}
			before := ask(models.Moment{}, "w").Now
			for i := range 10 {
				createEvent(t, store, alice, fmt.Sprint("w", 3*i))
			}
			after := ask(models.Moment{}, "w").Now
			gone := models.Caller{UserID: models.ID{1}}
			servicetest.AtOnce(300, func(i int) {
				world, since := i%30, i%2 == 0
				m := map[bool]models.Moment{true: before, false: after}[since]
				var callers []models.Caller
				if i%5 > 0 {
					callers = append(callers, alice, bob)
				}
				if i%7 == 0 {
					callers = append(callers, gone)
				}
				answer := ask(m, fmt.Sprint("w", world), callers...)
				servicetest.Is(t, answer.Changed, since && world%3 == 0, "world %d has changed, asked before the writes: %t", world, since)
				if answer.SignedOut[gone] != (i%7 == 0) || answer.SignedOut[alice] || answer.SignedOut[bob] {
					t.Errorf("question %d: signed out are %v", i, answer.SignedOut)
				}
				if again := ask(models.Moment{}, "w", gone); !again.Changed || len(again.SignedOut) != 1 {
					t.Errorf("since no moment: %+v", again)
				}
				if len(answer.SignedOut) > 1 || ask(answer.Now, "w0").Changed {
					t.Errorf("question %d: %+v", i, answer)
				}
			})
		})
	}
}

// Those who shared a question do not fail because its connection is lost: a question changes nothing, and is asked again.
func TestQuestionsOnLostConnection(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	store := openStore(t, db.URL)
	now := servicetest.Must(store.WorldsSince(t.Context(), models.Moment{}))(t)
	tx := servicetest.BeginTx(t, db, "LOCK TABLE changes")
	answers := make(chan error)
	const asked = 20
	for range asked {
		go func() {
			answer, err := store.ChangedSince(t.Context(), now.Now, "w", nil)
			if err == nil && answer.Changed {
				err = errors.New("changed")
			}
			answers <- err
		}()
	}
	db.AwaitLock(t)
	db.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
	db.AwaitLock(t)
	tx.Rollback()
	for range asked {
		servicetest.Is(t, <-answers, nil, "error")
	}
}
