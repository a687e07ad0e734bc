package models_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"worldevents/models"
	"worldevents/models/internal/notify"
	"worldevents/models/internal/postgres"
	"worldevents/tests/servicetest"
)

// The connections of the pool keep no notifications, which a pooler may send them: nobody would ever take them away.
func TestPoolKeepsNoNotifications(t *testing.T) {
	s := servicetest.Start(t, servicetest.Postgres(t))
	conn, err := s.Store.Pools()["postgres"].Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
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

// Who listens while the pool is full is not deaf: the proof goes on once a connection is free.
func TestHearsOnceItCanNotify(t *testing.T) {
	db := servicetest.Postgres(t)
	server, err := postgres.New(db.URL, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	var sent atomic.Int32
	log := new(servicetest.Log)
	instances := notify.New(server, func(_ context.Context, statement string) error {
		if sent.Add(1) == 1 {
			return models.ErrBusy
		}
		_, err := db.TryExec(statement)
		return err
	})
	defer instances.Close()
	instances.Listen(slog.New(slog.NewTextHandler(log, nil)), func() {})
	servicetest.Eventually(t, 20*time.Second, "it hears", instances.Hears)
	if text := log.String(); strings.Contains(text, "not heard") || sent.Load() < 2 {
		t.Errorf("after %d notifications: %s", sent.Load(), text)
	}
}
