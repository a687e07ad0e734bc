package models

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"worldevents/models/internal/dberr"
)

// A database that could not write is well once a probe succeeds, but not at once, and not if another write has failed
// meanwhile.
func TestSickness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sickness
		errProbe := errors.New("no room")
		fine := func() error { return nil }
		cure := func(probe func() error, want error) {
			t.Helper()
			if err := s.cure(probe); err != want {
				t.Errorf("%v, want %v", err, want)
			}
		}
		cure(func() error { return errProbe }, nil) // it is well: nobody asks
		s.begin()
		time.Sleep(minSickness - 1)
		cure(fine, dberr.ErrSick)
		time.Sleep(time.Nanosecond)
		cure(func() error { return errProbe }, errProbe)
		cure(func() error { s.begin(); return nil }, nil)
		cure(fine, dberr.ErrSick)
		time.Sleep(minSickness)
		cure(fine, nil)
		cure(func() error { return errProbe }, nil)
	})
}
