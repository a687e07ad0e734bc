package models_test

import (
	"context"
	"testing"
	"time"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// Callers who leave sooner than a connection can be made get one in the end: that which was begun for an earlier one.
func TestConnectionOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	proxy, address := db.ThroughProxy()
	proxy.Delay(1500 * time.Millisecond)
	s, err := models.Open(models.Options{URL: address, Timeout: 30 * time.Second, MaxConns: 4})
	servicetest.NoError(t, err)
	defer s.Close()
	for range 30 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err = s.Ready(ctx)
		cancel()
		if err == nil {
			return
		}
	}
	t.Error(err)
}
