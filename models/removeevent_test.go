package models

import (
	"context"
	"testing"
	"time"
)

// A batch is followed by a rest that is longer than it, but short where the batch has taken long, as on a busy machine.
func TestRestIsBounded(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := rest(ctx, time.Now().Add(-time.Hour)); err != nil {
		t.Error(err)
	}
	begin := time.Now()
	if err := rest(ctx, begin.Add(-50*time.Millisecond)); err != nil || time.Since(begin) < 100*time.Millisecond {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
	cancel()
	if rest(ctx, time.Now().Add(-time.Hour)) == nil {
		t.Error("rests although it is interrupted")
	}
}
