//go:build linux

package models

import (
	"context"
	"path/filepath"
	"testing"
	"time"
)

// The database and the index of its log are in use from the first connection to the last.
func TestIndexInUse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "test.db")
	s, err := Open(Options{URL: "sqlite:" + file, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if indexInUse(file+"-shm") || databaseInUse(file) {
		t.Error("in use before anything was opened")
	}
	if err := s.Migrate(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.AddUser(context.Background(), "alice"); err != nil {
		t.Fatal(err)
	}
	if !indexInUse(file+"-shm") || !databaseInUse(file) {
		t.Error("not in use while it is open")
	}
	s.Close()
	if indexInUse(file+"-shm") || databaseInUse(file) {
		t.Error("in use after the store was closed")
	}
}
