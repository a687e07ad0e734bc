package models

import (
	"sync/atomic"
	"time"

	"worldevents/models/internal/dberr"
)

// sickness is that of a database that responds but lacks what it needs to write, such as room on its disk.
type sickness struct{ last atomic.Pointer[time.Time] } // when a write failed of it; nil if it is well

// minSickness is how long it lasts after a write that failed: a probe may find room where a large write does not.
const minSickness = 2 * time.Second

func (s *sickness) begin() {
	now := time.Now()
	s.last.Store(&now)
}

// cure returns errSick, or the error of probe, unless the database is well or probe succeeds.
func (s *sickness) cure(probe func() error) error {
	last := s.last.Load()
	if last == nil {
		return nil
	}
	if time.Since(*last) < minSickness {
		return dberr.ErrSick
	}
	if err := probe(); err != nil {
		return err
	}
	s.last.CompareAndSwap(last, nil)
	return nil
}
