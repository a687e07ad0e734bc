package models_test

import (
	"context"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// Callers who leave sooner than a connection can be made get one in the end: that which was begun for an earlier one.
func TestConnectionOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	proxy, address := db.ThroughProxy()
	proxy.Delay(1500 * time.Millisecond)
	s := openStore(t, address)
	servicetest.Eventually(t, "a connection", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return s.Ready(ctx) == nil
	})
}
