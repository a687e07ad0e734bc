package batch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"worldevents/models/internal/dberr"
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

func (s *script) Begin() error { return s.step("begin") }
func (s *script) Mark() error  { return s.step("mark") }
func (s *script) Keep() error  { return s.step("keep") }
func (s *script) Apply(*Write) (changed bool, err error) {
	return true, s.step("apply")
}
func (s *script) Undo() error     { return s.step("undo") }
func (s *script) Commit() error   { return s.step("commit") }
func (s *script) Rollback() error { return s.step("rollback") }
func (s *script) Close()          { s.step("close") }

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
			"begin mark work keep mark work undo rollback", []error{dberr.ErrUnavailable, dberr.ErrUnavailable, dberr.ErrUnavailable}},
	} {
		t.Run(test.name, func(t *testing.T) {
			tx := &script{fail: test.fail}
			var batch []*Job
			for _, kind := range test.works {
				j := &Job{done: make(chan struct{})}
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
				if got := j.Err; !errors.Is(got, test.errs[i]) && !(test.errs[i] == errPanicked && strings.HasPrefix(fmt.Sprint(j.panicked), "oh\n")) {
					t.Errorf("job %d: %v, want %v", i, got, test.errs[i])
				}
			}
			if got := strings.Join(tx.steps, " "); got != test.steps {
				t.Errorf("%s\nwant %s", got, test.steps)
			}
		})
	}
}

// lockedScript waits for a lock that another process keeps.
type lockedScript struct{ script }

func (s *lockedScript) Begin() error {
	time.Sleep(1200 * time.Millisecond)
	return dberr.ErrBusy
}

// A write that waits for the lock of another process has not begun, however its wait is divided among transactions: nobody is
// told that it may have happened.
func TestBatchLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Savepoints{Tx: &lockedScript{}}, false)
		var callers sync.WaitGroup
		for i := range 20 {
			callers.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				now := time.Now()
				j := &Job{Write: &Write{}, Deadline: now.Add(1800 * time.Millisecond)}
				if err := w.Apply(t.Context(), j, now.Add(time.Second)); !errors.Is(err, dberr.ErrBusy) {
					t.Errorf("the write of %d ms: %v", 100*i, err)
				}
			})
		}
		callers.Wait()
		w.Close()
	})
}

// Those who wait while a batch runs are the next one, at most maxBatch of them, and a panic reaches its caller alone.
func TestBatchWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tx := new(script)
		w := New(Savepoints{Tx: tx}, false)
		do := func(work func() error) error {
			inTime := time.Now().Add(time.Minute)
			return w.Do(context.Background(), inTime, inTime, work)
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
		w.Close()
		w.Close()
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
		if err := do(func() error { return nil }); !errors.Is(err, dberr.ErrUnavailable) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// held keeps transactions until they are let go, one after the other.
type held struct {
	begun []int // how many writes each transaction has
	goOn  chan struct{}
	mu    sync.Mutex
}

func (h *held) Acquire(context.Context, time.Time) error { return nil }
func (h *held) Release()                                 {}
func (h *held) Close()                                   {}
func (h *held) Transact(batch []*Job) {
	batch = Begin(batch)
	h.mu.Lock()
	h.begun = append(h.begun, len(batch))
	h.mu.Unlock()
	<-h.goOn
	for _, j := range batch {
		j.End(nil)
	}
}

// A write that meets no transaction has one alone, and all that come meanwhile share the next.
func TestWhenTransactionsBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &held{goOn: make(chan struct{})}
		b := New(server, false)
		var callers sync.WaitGroup
		come := func(n int) {
			for range n {
				callers.Go(func() {
					inTime := time.Now().Add(time.Minute)
					if err := b.Apply(t.Context(), &Job{Write: new(Write), Deadline: inTime}, inTime); err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
			}
		}
		have := func(want ...int) {
			t.Helper()
			synctest.Wait()
			server.mu.Lock()
			defer server.mu.Unlock()
			if !slices.Equal(server.begun, want) {
				t.Errorf("transactions of %v, want %v", server.begun, want)
			}
		}
		come(1)
		have(1)
		come(5)
		have(1)
		server.goOn <- struct{}{}
		have(1, 5)
		come(2)
		server.goOn <- struct{}{}
		have(1, 5, 2)
		server.goOn <- struct{}{}
		come(1)
		have(1, 5, 2, 1)
		close(server.goOn)
		callers.Wait()
		b.Close()
	})
}

// Close lets a transaction end. Who is queued, or comes later, is told at once.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &held{goOn: make(chan struct{})}
		b := New(server, true)
		var told [3]error
		apply := func(n int) {
			inTime := time.Now().Add(time.Minute)
			told[n] = errors.New("not told")
			told[n] = b.Apply(t.Context(), &Job{Write: new(Write), Deadline: inTime}, inTime)
		}
		for n := range 2 {
			go apply(n)
			synctest.Wait()
		}
		go b.Close()
		synctest.Wait()
		apply(2)
		if told[0] == nil || !errors.Is(told[1], dberr.ErrUnavailable) || !errors.Is(told[2], dberr.ErrUnavailable) {
			t.Errorf("after Close: %v", told)
		}
		server.goOn <- struct{}{}
		synctest.Wait()
		if told[0] != nil {
			t.Errorf("once it has ended: %v", told[0])
		}
	})
}

// Whoever comes, leaves, fails or panics when: one at a time runs, each job once or, if it left or was refused,
// never, in a transaction of its batch, and everybody returns.
func TestBatchWriterHistories(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) { testBatchWriterHistory(t, seed) })
	}
}

func testBatchWriterHistory(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
	tx := new(script)
	w := New(Savepoints{Tx: tx}, false)
	var running atomic.Int32
	var all sync.WaitGroup
	for range 1 + random.IntN(40) {
		kind, wait := random.IntN(10), time.Duration(random.IntN(30))*time.Microsecond // much happens at the same time
		begin, took := time.Duration(random.IntN(30))*time.Microsecond, time.Duration(random.IntN(10))*time.Microsecond
		all.Go(func() {
			time.Sleep(begin)
			ran := 0
			work := func() {
				if running.Add(1) != 1 {
					t.Error("two at a time")
				}
				time.Sleep(took)
				ran++
				running.Add(-1)
			}
			ctx, cancel := context.WithTimeout(context.Background(), wait)
			defer cancel()
			want := error(nil)
			defer func() {
				if r := recover(); (r != nil) != (kind == 1 && ran == 1) || ran > 1 {
					t.Errorf("a job of kind %d ran %d times: %v", kind, ran, r)
				}
			}()
			err := w.Do(ctx, time.Now().Add(time.Minute), time.Now().Add(wait), func() error {
				work()
				switch kind {
				case 1:
					panic("oh")
				case 2:
					want = errWork
				}
				return want
			})
			if ran == 1 && !errors.Is(err, want) || ran == 0 && err == nil {
				t.Errorf("a job of kind %d ran %d times and returned %v", kind, ran, err)
			}
		})
	}
	if random.IntN(2) == 0 { // the end may come in between
		time.Sleep(time.Duration(random.IntN(30)) * time.Microsecond)
	} else {
		all.Wait()
	}
	w.Close()
	all.Wait()
	if last := len(tx.steps) - 1; slices.Index(tx.steps, "close") != last {
		t.Errorf("seed %d: closed in between, or more than once: %v", seed, tx.steps)
	}
}

// transactions is a server that some transactions keep waiting, with a pool of connections that others use, too.
type transactions struct {
	Connections
	t       *testing.T
	random  func(n int) int
	mu      sync.Mutex
	running int
	ran     map[*Write]int
}

func (s *transactions) draw(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random(n)
}

func (s *transactions) Close() {}

func (s *transactions) Transact(batch []*Job) {
	time.Sleep(time.Duration(s.draw(5)) * time.Millisecond) // a connection is made
	batch = Begin(batch)
	s.mu.Lock()
	if s.running++; s.running > 1 {
		s.t.Errorf("%d transactions at once", s.running)
	}
	if len(batch) > maxBatch {
		s.t.Errorf("%d writes in a transaction", len(batch))
	}
	var err error
	if s.random(4) == 0 {
		err = errDisk
	}
	took := time.Duration(s.random(20)) * time.Millisecond
	s.mu.Unlock()
	time.Sleep(took)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	for _, j := range batch {
		s.ran[j.Write]++
		j.Changed = err == nil
		j.End(err)
	}
}

// Whoever comes and leaves when, and however long transactions take: one runs at a time, each write at most once, and what its caller
// is told is true.
func TestBatcherHistories(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) { testBatcherHistory(t, seed) })
	}
}

func testBatcherHistory(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	conns := 1 + random.IntN(6)
	server := &transactions{
		Connections: NewConnections(conns), t: t, random: rand.New(rand.NewPCG(seed, 2)).IntN,
		ran: make(map[*Write]int),
	}
	b := New(server, random.IntN(2) == 0)
	var waiting atomic.Int64
	var all sync.WaitGroup
	for range conns {
		begin, took := time.Duration(random.IntN(40))*time.Millisecond, time.Duration(random.IntN(20))*time.Millisecond
		all.Go(func() { // somebody who reads
			time.Sleep(begin)
			inTime := time.Now().Add(time.Minute)
			server.Do(context.Background(), inTime, inTime, func() error { time.Sleep(took); return nil })
		})
	}
	for range 1 + random.IntN(300) {
		begin := time.Duration(random.IntN(60)) * time.Millisecond
		patience, time4all := time.Duration(random.IntN(30))*time.Millisecond, time.Duration(1+random.IntN(60))*time.Millisecond
		leaves := time.Hour
		if random.IntN(4) == 0 {
			leaves = time.Duration(random.IntN(30)) * time.Millisecond
		}
		all.Go(func() {
			time.Sleep(begin)
			ctx, cancel := context.WithTimeout(context.Background(), leaves)
			defer cancel()
			w := new(Write)
			err := b.Apply(ctx, &Job{Write: w, Deadline: time.Now().Add(time4all), Waiting: &waiting}, time.Now().Add(patience))
			server.mu.Lock()
			ran := server.ran[w]
			server.mu.Unlock()
			switch {
			case ran > 1:
				t.Errorf("a write ran %d times", ran)
			case (err == nil || errors.Is(err, errDisk)) && ran != 1:
				t.Errorf("a write that never ran returned %v", err)
			case (errors.Is(err, dberr.ErrBusy) || errors.Is(err, dberr.ErrUnavailable) || errors.Is(err, context.Canceled)) && ran != 0:
				t.Errorf("a write that ran returned %v", err)
			}
		})
	}
	if random.IntN(2) == 0 {
		time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond)
		b.Close()
	}
	all.Wait()
	b.Close()
	if n := waiting.Load(); n != 0 {
		t.Errorf("%d wait after the end", n)
	}
}
