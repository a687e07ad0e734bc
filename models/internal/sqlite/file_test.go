package sqlite

import (
	"context"
	"database/sql"
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
	path, another := filepath.Join(t.TempDir(), "w.db"), filepath.Join(t.TempDir(), "other.db")
	file := NewFile(path)
	db := withTable(t, file)
	log := read(t, path+"-wal")
	withTable(t, NewFile(another)).Close()
	for name, other := range map[string]string{"empty": "", "database": read(t, another)} {
		t.Run(name, func(t *testing.T) {
			conn, err := file.connect(context.Background(), func() (driver.Conn, error) {
				noError(t, os.WriteFile(path+".new", []byte(other), 0o600))
				noError(t, errors.Join(os.Rename(path, path+".old"), os.Rename(path+".new", path)))
				return db.Driver().Open(DSN(path, time.Second))
			})
			if conn != nil || !errors.Is(err, dberr.ErrUnwritable) {
				t.Errorf("%v, %v", conn, err)
			}
			if now := read(t, path); now != other {
				t.Errorf("the other file was %d bytes and is %d", len(other), len(now))
			}
			if now := read(t, path+"-wal"); now != log {
				t.Errorf("the log was %d bytes and is %d", len(log), len(now))
			}
			noError(t, os.Rename(path+".old", path))
		})
	}
}

// withTable opens a file that gets a table.
func withTable(t *testing.T, file *File) *sql.DB {
	t.Helper()
	db, err := file.OpenPool(time.Second)
	noError(t, err)
	t.Cleanup(func() { db.Close() })
	_, err = db.Exec("CREATE TABLE a (b); INSERT INTO a VALUES (1)")
	noError(t, err)
	return db
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	noError(t, err)
	return string(text)
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
