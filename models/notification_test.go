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
	conn := servicetest.Must(s.Store.Pools()["postgres"].Conn(t.Context()))(t)
	defer conn.Close()
	servicetest.Must(conn.ExecContext(t.Context(), "LISTEN test; NOTIFY test, 'kept'"))(t)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	servicetest.NoError(t, conn.Raw(func(driver any) error {
		n, err := driver.(*stdlib.Conn).Conn().WaitForNotification(over)
		servicetest.Is(t, err == nil, false, "a notification is kept: %+v", n)
		return nil
	}))
}
