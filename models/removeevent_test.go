package models

import (
	"context"
	"testing"
	"time"
)

// A batch that has taken long, as on a busy machine, is followed by a short rest all the same.
func TestRestIsBounded(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := rest(ctx, time.Now().Add(-time.Hour)); err != nil {
		t.Error(err)
	}
	cancel()
	if rest(ctx, time.Now().Add(-time.Hour)) == nil {
		t.Error("rests although it is interrupted")
	}
}
