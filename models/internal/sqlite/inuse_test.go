//go:build unix

package sqlite

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The database and the index of its log are in use from the first connection of another process to its last, however
// many locks on other files come and go meanwhile.
func TestInUse(t *testing.T) {
	if file := os.Getenv("KEEP_OPEN"); file != "" {
		keepOpen(t, file)
		return
	}
	if file := os.Getenv("LOOK_AT"); file != "" {
		if !indexInUse(file+"-shm") || !databaseInUse(file) {
			t.Error("not in use")
		}
		return
	}
	file := filepath.Join(t.TempDir(), "test.db")
	if indexInUse(file+"-shm") || databaseInUse(file) || WhoHasOpen(file) != "" {
		t.Error("in use before there was a file")
	}
	other := exec.Command(os.Args[0], "-test.run=^TestInUse$")
	other.Env = append(os.Environ(), "KEEP_OPEN="+file)
	stop, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Wait()
	defer stop.Close()
	lines := bufio.NewReader(said)
	if line, err := lines.ReadString('\n'); line != "open\n" {
		t.Fatalf("%q %v", line, err)
	}
	defer lockOthers(t)()
	for range 1000 {
		if !indexInUse(file+"-shm") || !databaseInUse(file) {
			t.Fatal("not in use while it is open")
		}
	}
	if who, want := WhoHasOpen(file), fmt.Sprintf("process %d", other.Process.Pid); who != want {
		t.Errorf("%q, want %q", who, want)
	}
	stop.Close()
	io.Copy(io.Discard, lines)
	if err := other.Wait(); err != nil {
		t.Error(err)
	}
	if indexInUse(file+"-shm") || databaseInUse(file) || WhoHasOpen(file) != "" {
		t.Error("in use after it was closed")
	}
}

// A connection that checks the file, and one that comes meanwhile, leave the locks of each other alone.
func TestLocksStay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "test.db")
	db, err := NewFile(file).OpenPool(time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE t (n)"); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	locked := func(what string) {
		t.Helper()
		look := exec.Command(os.Args[0], "-test.run=^TestInUse$")
		look.Env = append(os.Environ(), "LOOK_AT="+file)
		if out, err := look.CombinedOutput(); err != nil {
			t.Errorf("%s: %v %s", what, err, out)
		}
	}
	locked("one has it open")
	other := NewFile(file)
	if err := other.CheckAtStart(t.Context()); err != nil {
		t.Error(err)
	}
	locked("another checks it")
	checks := make(chan error)
	go func() { checks <- other.quickCheck(t.Context()) }()
	pool, err := other.OpenPool(time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var n int
	if err := errors.Join(pool.QueryRow("SELECT count(*) FROM t").Scan(&n), <-checks); err != nil {
		t.Error(err)
	}
	locked("another has it open, too")
	syncKept(t.Context(), file)
	locked("it is synced")
	pool.Close()
	other.Close()
	locked("another has closed it")
}

// keepOpen has a database open until its standard input ends.
func keepOpen(t *testing.T, file string) {
	db, err := NewFile(file).OpenPool(time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE t (n)"); err != nil {
		t.Fatal(err)
	}
	fmt.Println("open")
	io.Copy(io.Discard, os.Stdin)
}

// lockOthers locks and unlocks many other files until stop is called.
func lockOthers(t *testing.T) (stop func()) {
	var files []*os.File
	dir := t.TempDir()
	lock := func(f *os.File, kind int16) {
		if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: kind, Whence: io.SeekStart, Len: 1}); err != nil {
			t.Error(err)
		}
	}
	for i := range 200 {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		lock(f, unix.F_RDLCK)
		files = append(files, f)
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for kind := int16(unix.F_UNLCK); ; kind = unix.F_RDLCK + unix.F_UNLCK - kind {
			for _, f := range files {
				lock(f, kind)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	}()
	return func() {
		close(done)
		<-ended
		for _, f := range files {
			f.Close()
		}
	}
}
