package models

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"gorm.io/gorm"

	"worldevents/models/internal/sqlite"
)

// While all connections are taken a call waits for MaxWait, for what is left of the time that its request has, or for its caller,
// and says which of these it was. Work does not begin after the deadline.
func TestWaitForConnection(t *testing.T) {
	for name, call := range map[string]func(*Store, context.Context, func(*gorm.DB) error) error{"read": (*Store).read, "write": (*Store).write} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := Open(Options{URL: "sqlite:" + filepath.Join(t.TempDir(), "db"), Timeout: 20 * time.Second, MaxWait: 5 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				for range sqlite.Readers {
					go call(s, t.Context(), func(*gorm.DB) error {
						time.Sleep(time.Minute)
						return nil
					})
				}
				synctest.Wait()
				in := func(d time.Duration) context.Context {
					return context.WithValue(t.Context(), Deadline{}, time.Now().Add(d))
				}
				hungUp, cancel := context.WithTimeout(t.Context(), 13*time.Second)
				defer cancel()
				for _, test := range []struct {
					name string
					ctx  context.Context
					took time.Duration
					want error
				}{
					{"no deadline", t.Context(), 5 * time.Second, ErrBusy},
					{"a deadline without a time", context.WithValue(t.Context(), Deadline{}, time.Time{}), 5 * time.Second, ErrBusy},
					{"a caller who hangs up", hungUp, 3 * time.Second, ErrTimeout},
					{"a deadline", in(15 * time.Second), 2 * time.Second, ErrTimeout},
					{"a deadline that has passed", in(time.Second), 0, ErrTimeout},
				} {
					begin := time.Now()
					err := call(s, test.ctx, func(*gorm.DB) error {
						t.Error(test.name, "has begun")
						return nil
					})
					if took := time.Since(begin); !errors.Is(err, test.want) || took != test.took {
						t.Errorf("%s: %v after %v", test.name, err, took)
					}
				}
				time.Sleep(time.Minute)
				if err := call(s, in(0), func(*gorm.DB) error { return errors.New("work") }); !errors.Is(err, ErrTimeout) {
					t.Errorf("a connection is free, but the time is over: %v", err)
				}
			})
		})
	}
}

// A commit returns once it is on the disk, whichever connection writes.
func TestSQLiteSettings(t *testing.T) {
	s, err := Open(Options{URL: "sqlite:" + filepath.Join(t.TempDir(), "db"), Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, call := range map[string]func(*Store, context.Context, func(*gorm.DB) error) error{"read": (*Store).read, "write": (*Store).write} {
		var journal string
		var synchronous, foreignKeys int
		err := call(s, t.Context(), func(tx *gorm.DB) error {
			return tx.Raw("SELECT journal_mode, synchronous, foreign_keys FROM pragma_journal_mode, pragma_synchronous, pragma_foreign_keys").
				Row().Scan(&journal, &synchronous, &foreignKeys)
		})
		const full = 2 // sqlite.org/pragma.html#pragma_synchronous
		if err != nil || journal != "wal" || synchronous != full || foreignKeys != 1 {
			t.Errorf("%s: %s, %d, %d, %v", name, journal, synchronous, foreignKeys, err)
		}
	}
}
