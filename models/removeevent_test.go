package models

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A batch is followed by a rest that is longer than it, but short where the batch has taken long, as on a busy machine.
func TestRestIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for work, want := range map[time.Duration]time.Duration{50 * time.Millisecond: 150 * time.Millisecond, time.Hour: maxRest} {
			begin := time.Now()
			if err := rest(t.Context(), begin.Add(-work)); err != nil || time.Since(begin) != want {
				t.Errorf("a rest of %v after %v, %v", time.Since(begin), work, err)
			}
		}
		interrupted, cancel := context.WithCancel(t.Context())
		cancel()
		if rest(interrupted, time.Now().Add(-time.Hour)) == nil {
			t.Error("rests although it is interrupted")
		}
	})
}
