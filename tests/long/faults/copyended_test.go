package faults

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// However a copy is ended, and whatever it was doing, the target is empty or absent, and takes a copy afterwards: a file
// once what a killed copy has left is removed.
func TestCopyEnded(t *testing.T) {
	servicetest.EachCopy(t, func(t *testing.T, from, to *servicetest.Database) {
		p := servicetest.NewProgram(t, "DATABASE_URL="+from.URL)
		p.MustRun("demo")
		addMany(from, 20_000)
		for i, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
			for j, step := range []string{"copying", "checking", "comparing"} {
				if (i+j)%2 == 0 != (from.Dialect == "sqlite") { // each kind of target has them all, from either kind of source
					continue
				}
				var stderr string
				status := 0
				for range 5 { // the copy may be quicker than the signal
					if stderr, status = endCopyAt(t, p, to.URL, step, signal); status != 0 {
						break
					}
					empty(t, to)
				}
				if status == 0 {
					t.Fatalf("%v while %s comes too late: %s", signal, step, stderr)
				}
				if signal != syscall.SIGKILL {
					if status != 1 || !strings.HasSuffix(stderr, "interrupted\n") {
						t.Errorf("%v while %s: %d %q", signal, step, status, stderr)
					}
				}
				if to.Dialect == "postgres" {
					for table, n := range to.Counts() {
						if n != 0 {
							t.Fatalf("%v while %s: %d rows of %s", signal, step, n, table)
						}
					}
					continue
				}
				left, _ := filepath.Glob(to.File() + "*")
				if slices.Contains(left, to.File()) || signal != syscall.SIGKILL && len(left) > 0 {
					t.Fatalf("%v while %s: left %v", signal, step, left)
				}
				if signal == syscall.SIGKILL {
					p.Fails(".copying is there: another copy into it is running, or one was killed: then remove it", "copy", "--to", to.URL)
					os.Remove(to.File() + ".copying") // by hand; the next copy removes what SQLite has left beside it
				}
			}
		}
		if done, _ := p.MustCopy(to.URL); !maps.Equal(to.Counts(), done.Rows) {
			t.Errorf("%v, want %v", to.Counts(), done.Rows)
		}
		if to.Dialect == "sqlite" {
			if left, _ := filepath.Glob(to.File() + ".*"); len(left) != 0 {
				t.Errorf("left %v", left)
			}
		}
	})
}

// A signal that comes after a copy is done, when the process is about to end, changes nothing: its status says that it is done.
func TestCopyEndedTooLate(t *testing.T) {
	servicetest.EachCopy(t, func(t *testing.T, from, to *servicetest.Database) {
		p := servicetest.NewProgram(t, "DATABASE_URL="+from.URL)
		p.MustRun("demo")
		for range 3 {
			if stderr, status := endCopyAt(t, p, to.URL, "action=copy", syscall.SIGINT); status != 0 {
				t.Fatalf("%d %q", status, stderr)
			}
			empty(t, to)
		}
	})
}

// empty takes back a copy.
func empty(t *testing.T, db *servicetest.Database) {
	t.Helper()
	if db.Dialect == "postgres" {
		db.Exec("TRUNCATE " + strings.Join(servicetest.CopiedTables, ", "))
	} else if err := os.Remove(db.File()); err != nil {
		t.Fatal(err)
	}
}

// addMany adds so many RSVPs to the demo's first event.
func addMany(db *servicetest.Database, n int) {
	id := "CAST('00000000-0000-7000-7000-' || lpad(CAST(i AS text), 12, '0') AS uuid)"
	if db.Dialect == "sqlite" {
		id = "printf('00000000-0000-7000-7000-%012d', i)"
	}
	db.Exec(fmt.Sprintf(`
		INSERT INTO users (id, username, created_at)
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		SELECT %s, 'many ' || CAST(i AS text), '2030-01-01 00:00:00+00:00' FROM n`, n, id))
	db.Exec(`INSERT INTO rsvps (event_number, user_number, username, created_at)
		SELECT e.number, u.number, u.username, '2030-01-01 00:00:00+00:00' FROM users u, events e
		WHERE u.username LIKE 'many %' AND e.id = '01980000-0000-7000-8000-000000000001'`)
}

// endCopyAt runs copy and sends the signal as soon as it says that it does the step.
func endCopyAt(t *testing.T, p *servicetest.Program, to, step string, signal syscall.Signal) (stderr string, status int) {
	t.Helper()
	command := p.Command("copy", "--to", to)
	words := &signalOn{step: step, send: func() { command.Process.Signal(signal) }}
	command.Stderr = words
	servicetest.NoError(t, command.Start())
	kill := time.AfterFunc(60*time.Second, func() { command.Process.Kill() })
	defer kill.Stop()
	command.Wait()
	return words.text.String(), command.ProcessState.ExitCode()
}

// signalOn is a writer that sends once the text has come to a step.
type signalOn struct {
	step string
	text bytes.Buffer
	send func()
	sent bool
}

func (w *signalOn) Write(p []byte) (int, error) {
	w.text.Write(p)
	if !w.sent && strings.Contains(w.text.String(), w.step) {
		w.sent = true
		w.send()
	}
	return len(p), nil
}
