package faults

import (
	"bufio"
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
		servicetest.Crowd(t, &servicetest.Service{Database: from}, "many", 20_000)
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
				if signal != syscall.SIGKILL && (status != 1 || !strings.HasSuffix(stderr, "interrupted\n")) {
					t.Errorf("%v while %s: %d %q", signal, step, status, stderr)
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
					p.Fails(".copying exists: another copy into it is running, or a killed one left it: then remove it", "copy", "--to", to.URL)
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

// endCopyAt runs copy and sends the signal as soon as it says that it does the step.
func endCopyAt(t *testing.T, p *servicetest.Program, to, step string, signal os.Signal) (stderr string, status int) {
	t.Helper()
	command := p.Command("copy", "--to", to)
	words := servicetest.Must(command.StderrPipe())(t)
	servicetest.NoError(t, command.Start())
	kill := time.AfterFunc(60*time.Second, func() { command.Process.Kill() })
	defer kill.Stop()
	sent := false
	for lines := bufio.NewScanner(words); lines.Scan(); {
		stderr += lines.Text() + "\n"
		if !sent && strings.Contains(stderr, step) {
			sent = true
			command.Process.Signal(signal)
		}
	}
	command.Wait()
	return stderr, command.ProcessState.ExitCode()
}
