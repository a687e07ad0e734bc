package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"worldevents/models/internal/dberr"
)

// Another file takes the place of the first one after it was looked at and before it is opened. It must not change, nor may
// the log that lies beside it: it is the first file's.
func TestConnectToAnotherFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.db")
	file := NewFile(path)
	db, err := file.OpenPool(time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE first (a); INSERT INTO first VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string]string{"empty": "", "database": databaseInWALMode(t)} {
		t.Run(name, func(t *testing.T) {
			conn, err := file.connect(context.Background(), func() (driver.Conn, error) {
				if err := os.WriteFile(path+".new", []byte(other), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(path, path+".old"); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(path+".new", path); err != nil {
					t.Fatal(err)
				}
				return db.Driver().Open(DSN(path, time.Second))
			})
			if conn != nil || !errors.Is(err, dberr.ErrUnwritable) {
				t.Errorf("%v, %v", conn, err)
			}
			if now, err := os.ReadFile(path); err != nil || string(now) != other {
				t.Errorf("the other file was %d bytes and is %d, %v", len(other), len(now), err)
			}
			if now, err := os.ReadFile(path + "-wal"); err != nil || string(now) != string(log) {
				t.Errorf("the log was %d bytes and is %d, %v", len(log), len(now), err)
			}
			if err := os.Rename(path+".old", path); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// databaseInWALMode returns the file of a database.
func databaseInWALMode(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "other.db")
	db, err := NewFile(path).OpenPool(time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE other (a)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
