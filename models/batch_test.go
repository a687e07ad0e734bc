package models

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// script is a transaction that notes what becomes of it, and fails where it is told to.
type script struct {
	mu    sync.Mutex
	steps []string
	fail  map[string]error
}

func (s *script) step(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, name)
	return s.fail[name]
}

func (s *script) begin() error  { return s.step("begin") }
func (s *script) mark() error   { return s.step("mark") }
func (s *script) keep() error   { return s.step("keep") }
func (s *script) undo() error   { return s.step("undo") }
func (s *script) commit() error { return s.step("commit") }
func (s *script) rollback()     { s.step("rollback") }
func (s *script) close()        { s.step("close") }

var (
	errWork = errors.New("work")
	errDisk = errors.New("disk")
)

// What each of a batch gets, and when: nobody before the commit, and everybody its failure.
func TestBatch(t *testing.T) {
	for _, test := range []struct {
		name  string
		works []string // ok, fails, panics
		fail  map[string]error
		steps string
		errs  []error
	}{
		{"one", []string{"ok"}, nil, "begin work commit", []error{nil}},
		{"one fails", []string{"fails"}, nil, "begin work rollback", []error{errWork}},
		{"one panics", []string{"panics"}, nil, "begin work rollback", []error{errPanicked}},
		{"two", []string{"ok", "ok"}, nil, "begin mark work keep mark work keep commit", []error{nil, nil}},
		{"the first fails", []string{"fails", "ok"}, nil, "begin mark work undo mark work keep commit", []error{errWork, nil}},
		{"the last panics", []string{"ok", "panics"}, nil, "begin mark work keep mark work undo commit", []error{nil, errPanicked}},
		{"no transaction", []string{"ok", "ok"}, map[string]error{"begin": errDisk}, "begin", []error{errDisk, errDisk}},
		{"the commit fails", []string{"ok", "fails", "ok"}, map[string]error{"commit": errDisk},
			"begin mark work keep mark work undo mark work keep commit", []error{errDisk, errDisk, errDisk}},
		{"a failure takes back all", []string{"ok", "fails", "ok"}, map[string]error{"undo": errDisk},
			"begin mark work keep mark work undo rollback", []error{ErrUnavailable, ErrUnavailable, ErrUnavailable}},
	} {
		t.Run(test.name, func(t *testing.T) {
			tx := &script{fail: test.fail}
			var batch []*job
			for _, kind := range test.works {
				j := &job{done: make(chan struct{})}
				j.work = func() error {
					tx.step("work")
					for _, other := range batch {
						select {
						case <-other.done:
							t.Error("a job was told before the commit")
						default:
						}
					}
					switch kind {
					case "fails":
						return errWork
					case "panics":
						panic("oh")
					}
					return nil
				}
				batch = append(batch, j)
			}
			runBatch(tx, batch)
			for i, j := range batch {
				<-j.done
				if got := j.err; !errors.Is(got, test.errs[i]) && !(test.errs[i] == errPanicked && strings.HasPrefix(fmt.Sprint(j.panicked), "oh\n")) {
					t.Errorf("job %d: %v, want %v", i, got, test.errs[i])
				}
			}
			if got := strings.Join(tx.steps, " "); got != test.steps {
				t.Errorf("%s\nwant %s", got, test.steps)
			}
		})
	}
}

// Those who wait while a batch runs are the next one, at most maxBatch of them, and a panic reaches its caller alone.
func TestBatchWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tx := new(script)
		w := newBatchWriter(tx)
		do := func(work func() error) error {
			return w.do(context.Background(), time.Now().Add(time.Minute), time.Minute, work)
		}
		goOn := make(chan struct{})
		go do(func() error { <-goOn; return nil })
		synctest.Wait()
		var all sync.WaitGroup
		for i := range 2 * maxBatch {
			all.Go(func() {
				defer func() {
					if r := recover(); (r != nil) != (i == 7) {
						t.Errorf("job %d: %v", i, r)
					}
				}()
				if err := do(func() error {
					if i == 7 {
						panic("seven")
					}
					return nil
				}); err != nil {
					t.Errorf("job %d: %v", i, err)
				}
			})
		}
		synctest.Wait() // until all of them wait
		close(goOn)
		all.Wait()
		w.close()
		w.close()
		var batches []int // the size of each, 0 for a single job, which needs no savepoint
		size := 0
		for _, step := range tx.steps {
			switch step {
			case "mark":
				size++
			case "commit":
				batches, size = append(batches, size), 0
			}
		}
		if want := []int{0, maxBatch, maxBatch}; !slices.Equal(batches, want) {
			t.Errorf("batches of %v, want %v", batches, want)
		}
		if tx.steps[len(tx.steps)-1] != "close" || slices.Index(tx.steps, "close") != len(tx.steps)-1 {
			t.Error("not closed at the end, once")
		}
		if err := do(func() error { return nil }); !errors.Is(err, ErrUnavailable) {
			t.Errorf("after the end: %v", err)
		}
	})
}
