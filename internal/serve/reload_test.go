package serve

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"worldevents/config/regularfile"
)

// file is what a look finds.
type file struct {
	content string
	unread  error
	useless bool
}

// What counts is what two looks a second apart have found. What cannot be used is said once and tried again, a missing file is
// none, and SIGHUP waits for no second look.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var now atomic.Pointer[file]
		var looks atomic.Int64
		inForce, read := "a", 0
		part := reloadable{about: "THE_FILE",
			read: func() ([]regularfile.File, error) {
				looks.Add(1)
				return []regularfile.File{{Content: []byte(now.Load().content)}}, now.Load().unread
			},
			reload: func(files []regularfile.File) ([]any, []string, error) {
				if now.Load().useless {
					return nil, nil, errors.New("of no use")
				}
				changed := inForce != string(files[0].Content)
				inForce = string(files[0].Content)
				return []any{"changed", changed}, []string{"a warning"}, nil
			},
		}
		now.Store(&file{content: "a"})
		again := make(chan bool, 1)
		defer close(again)
		go part.watch(again, slog.New(slog.NewTextHandler(&log, nil)))
		is := func(what, want string, lines ...string) {
			t.Helper()
			synctest.Wait()
			said := slices.Collect(strings.Lines(log.String()[read:]))
			read = log.Len()
			if inForce != want || len(said) != len(lines) {
				t.Fatalf("%s: %q is in force, want %q, and the log says %q", what, inForce, want, said)
			}
			for i, line := range lines {
				if !strings.Contains(said[i], line) {
					t.Errorf("%s: the log says %q, want %q", what, said[i], line)
				}
			}
		}
		// look lets so many looks pass, and returns for how long the last has been waited for.
		look := func(n int) (wait time.Duration) {
			for range n {
				looks.Store(0)
				for wait = 0; looks.Load() == 0; wait += 100 * time.Millisecond {
					time.Sleep(100 * time.Millisecond)
					synctest.Wait()
				}
			}
			return wait
		}
		const taken, refused = `msg="THE_FILE was read again" changed=true`, `level=ERROR msg="THE_FILE stays as it is" error="of no use"`
		time.Sleep(time.Minute)
		is("at first", "a")

		now.Store(&file{content: "b"})
		time.Sleep(2 * time.Minute)
		is("another", "b", `level=WARN msg="a warning"`, taken)

		now.Store(&file{})
		look(1)
		is("half written", "b")
		now.Store(&file{content: "c"})
		if wait := look(1); wait != time.Second {
			t.Errorf("the second look comes after %v", wait)
		}
		is("whole, and seen once", "b")
		look(1)
		is("seen twice", "c", "a warning", taken)
		if wait := look(1); wait != 10*time.Second {
			t.Errorf("the next look comes after %v", wait)
		}

		now.Store(&file{content: "d"})
		look(1)
		now.Store(&file{content: "d", unread: fs.ErrNotExist})
		look(9)
		is("missing", "c")
		now.Store(&file{content: "d"})
		look(1)
		is("there again, and seen once", "c")
		look(1)
		is("there again", "d", "a warning", taken)

		now.Store(&file{content: "e", useless: true})
		time.Sleep(time.Hour)
		is("of no use", "d", refused)
		now.Store(&file{content: "f", useless: true})
		time.Sleep(time.Hour)
		is("another of no use", "d", refused)
		now.Store(&file{content: "f"})
		look(1)
		is("of use since", "f", "a warning", taken)
		now.Store(&file{content: "f", unread: errors.New("is a directory"), useless: true})
		time.Sleep(time.Hour)
		is("unreadable", "f", `level=ERROR msg="THE_FILE stays as it is" error="is a directory"`)
		now.Store(&file{content: "f"})
		time.Sleep(time.Minute)
		is("as it was", "f")

		now.Store(&file{content: "g"})
		again <- true
		is("asked", "g", "a warning", `level=INFO msg="SIGHUP: THE_FILE was read again" changed=true`)
		time.Sleep(time.Minute)
		is("once alone", "g")
		again <- true
		is("asked for nothing new", "g", "a warning", `level=WARN msg="SIGHUP: THE_FILE was read again" changed=false note=`)
		now.Store(&file{content: "h", useless: true})
		again <- true
		is("asked for what is of no use", "g", `level=ERROR msg="SIGHUP: THE_FILE stays as it is"`)
		time.Sleep(time.Hour)
		is("said already", "g")
	})
}
