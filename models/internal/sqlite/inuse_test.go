//go:build linux

package sqlite

import (
	"path/filepath"
	"testing"
	"time"
)

// The database and the index of its log are in use from the first connection to the last.
func TestIndexInUse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "test.db")
	db, err := NewFile(file).OpenPool(time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if indexInUse(file+"-shm") || databaseInUse(file) {
		t.Error("in use before anything was opened")
	}
	if _, err := db.Exec("CREATE TABLE t (n)"); err != nil {
		t.Fatal(err)
	}
	if !indexInUse(file+"-shm") || !databaseInUse(file) {
		t.Error("not in use while it is open")
	}
	db.Close()
	if indexInUse(file+"-shm") || databaseInUse(file) {
		t.Error("in use after it was closed")
	}
}
