package models

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"worldevents/models/internal/dberr"
)

// A failure to write is over once a probe succeeds, but not at once, and not if another write has failed meanwhile.
func TestWriteFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f writeFailure
		errProbe := errors.New("no room")
		fine := func() error { return nil }
		isOver := func(probe func() error, want error) {
			t.Helper()
			if err := f.isOver(probe); err != want {
				t.Errorf("%v, want %v", err, want)
			}
		}
		isOver(func() error { return errProbe }, nil) // there is none: nobody asks
		f.note()
		time.Sleep(minWriteFailure - 1)
		isOver(fine, dberr.ErrCannotWrite)
		time.Sleep(time.Nanosecond)
		isOver(func() error { return errProbe }, errProbe)
		isOver(func() error { f.note(); return nil }, nil)
		isOver(fine, dberr.ErrCannotWrite)
		time.Sleep(minWriteFailure)
		isOver(fine, nil)
		isOver(func() error { return errProbe }, nil)
	})
}
