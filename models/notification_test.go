package models_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"

	"worldevents/tests/servicetest"
)

// The connections of the pool keep no notifications, which a pooler may send them: nobody would ever take them away.
func TestPoolKeepsNoNotifications(t *testing.T) {
	s := servicetest.Start(t, servicetest.Postgres(t))
	conn, err := s.Store.Pools()["postgres"].Conn(t.Context())
	servicetest.NoError(t, err)
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "LISTEN test; NOTIFY test, 'kept'"); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	err = conn.Raw(func(driver any) error {
		if n, err := driver.(*stdlib.Conn).Conn().WaitForNotification(over); err == nil {
			t.Errorf("kept: %+v", n)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
