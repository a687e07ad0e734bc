package eventlist

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"worldevents/models"
)

// delays turns on delays at each hand-over, and atHandOver is called there, too.
var (
	delays     atomic.Bool
	atHandOver atomic.Pointer[func()]
)

func init() {
	handOver = func() {
		if f := atHandOver.Load(); f != nil {
			(*f)()
		}
		if delays.Load() {
			time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
		}
	}
}

func newTestCoalescer() *coalescer {
	return &coalescer{running: make(map[readKey]*sharedRead), timeout: 10 * time.Second}
}

// awaitCallers returns when n callers wait for the next reading of key.
func awaitCallers(c *coalescer, key readKey, n int) {
	for waiting := 0; waiting < n; runtime.Gosched() {
		c.mu.Lock()
		if next := c.running[key]; next != nil {
			waiting = len(next.callers)
		}
		c.mu.Unlock()
	}
}

// awaitIdle returns when the goroutines that read have noticed that nobody waits.
func awaitIdle(c *coalescer) {
	for running := 1; running > 0; runtime.Gosched() {
		c.mu.Lock()
		running = len(c.running)
		c.mu.Unlock()
	}
}

// fill is a reading that fills the buffer with one text.
func fill(r *sharedRead, text string) {
	r.list = new(models.EventReader)
	r.list.Done = true
	for len(r.records.bytes) < 4096 {
		r.records.bytes = append(r.records.bytes, text...)
	}
}

// However readings and callers that leave are interleaved, nobody sees the bytes of another list. Few clients ask for
// each list, and most of them leave early, so that a reading which waits to begin loses all its callers and gets others.
func TestBuffersHaveOneOwner(t *testing.T) {
	delays.Store(true)
	defer delays.Store(false)
	const clients, worlds, rounds = 48, 16, 300
	c := newTestCoalescer()
	check := func(world string, r *sharedRead) {
		if text := string(r.records.bytes); strings.ReplaceAll(text, world, "") != "" {
			t.Errorf("%s has %.40q", world, text)
		}
	}
	var wait sync.WaitGroup
	for client := range clients {
		wait.Go(func() {
			for range rounds {
				world := fmt.Sprint("world ", client%worlds, ";")
				soon := time.Now().Add(time.Duration(rand.IntN(1000)) * time.Microsecond)
				ctx := context.WithValue(context.Background(), models.Deadline{}, soon)
				r, _, err := c.do(ctx, readKey{world: world}, Caller{}, func(_ context.Context, r *sharedRead) error {
					fill(r, world)
					handOver()
					check(world, r)
					return nil
				})
				if err == nil {
					handOver()
					check(world, r)
					if client%3 > 0 { // some want gzip
						if text := decompressed(t, r.gzipBody(r.records.bytes)); strings.ReplaceAll(text, world, "") != "" {
							t.Errorf("%s has %.40q as gzip", world, text)
						}
					}
					r.release()
				} else if !errors.Is(err, models.ErrTimeout) {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
}

// A list is compressed once for all who share it.
func TestCompressedOnce(t *testing.T) {
	r := &sharedRead{records: newRecords(true)}
	fill(r, "x")
	var first atomic.Pointer[byte]
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			body := r.gzipBody(r.records.bytes)
			if !first.CompareAndSwap(nil, &body[0]) && first.Load() != &body[0] {
				t.Error("it was compressed again")
			}
			if text := decompressed(t, body); text != string(r.records.bytes) {
				t.Errorf("it becomes %.40q", text)
			}
		})
	}
	wait.Wait()
}

// decompressed is what a body of gzip contains.
func decompressed(t *testing.T, body []byte) string {
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return ""
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// A reading that is shared began after all who share it asked.
func TestSharedReadingsAreFresh(t *testing.T) {
	c := newTestCoalescer()
	var clock, reads atomic.Int64
	var wait sync.WaitGroup
	const clients, rounds = 16, 200
	for range clients {
		wait.Go(func() {
			for range rounds {
				asked := clock.Add(1)
				var began int64
				r, _, err := c.do(context.Background(), readKey{}, Caller{}, func(_ context.Context, r *sharedRead) error {
					fill(r, "x")
					r.etag = fmt.Sprint(clock.Add(1))
					reads.Add(1)
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
				fmt.Sscan(r.etag, &began)
				if began < asked {
					t.Errorf("asked at %d, and the reading began at %d", asked, began)
				}
				r.release()
			}
		})
	}
	wait.Wait()
	t.Logf("%d readings for %d requests", reads.Load(), clients*rounds)
}

// A reading that panics or fails is the failure of all who share it, and of nobody else.
func TestFailuresAreShared(t *testing.T) {
	for _, test := range []struct {
		name string
		fail func() error
	}{
		{"error", func() error { return models.ErrUnavailable }},
		{"panic", func() error { panic("oh") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newTestCoalescer()
			key := readKey{world: "w"}
			begun, goOn := make(chan struct{}), make(chan struct{})
			first := make(chan error, 1)
			go func() {
				_, _, err := c.do(context.Background(), key, Caller{}, func(context.Context, *sharedRead) error {
					close(begun)
					<-goOn
					return test.fail()
				})
				first <- err
			}()
			<-begun
			var wait sync.WaitGroup
			for range 8 { // all wait for the next reading, which works
				wait.Go(func() {
					r, shared, err := c.do(context.Background(), key, Caller{}, func(_ context.Context, r *sharedRead) error {
						fill(r, "x")
						return nil
					})
					if err != nil || !shared {
						t.Errorf("shared %v, %v", shared, err)
						return
					}
					r.release()
				})
			}
			awaitCallers(c, key, 8)
			close(goOn)
			if err := <-first; err == nil {
				t.Error("the reading that failed has no error")
			}
			wait.Wait()
			awaitIdle(c)
		})
	}
}

// Those who shared a reading that failed try once more, together; whoever read alone does not.
func TestSharersTryAgain(t *testing.T) {
	c := newTestCoalescer()
	key := readKey{world: "w"}
	begun, goOn := make(chan struct{}), make(chan struct{})
	var reads atomic.Int32
	// The first reading holds the others back, the second fails for all of them, the third works.
	read := func(_ context.Context, r *sharedRead) error {
		switch reads.Add(1) {
		case 1:
			close(begun)
			<-goOn
		case 2:
			return models.ErrUnavailable
		}
		fill(r, "x")
		return nil
	}
	var wait sync.WaitGroup
	get := func() {
		r, err := c.doTwice(context.Background(), key, Caller{}, read)
		if err != nil {
			t.Error(err)
			return
		}
		r.release()
	}
	wait.Go(get)
	<-begun
	const sharers = 8
	for range sharers {
		wait.Go(get)
	}
	awaitCallers(c, key, sharers)
	close(goOn)
	wait.Wait()
	if n := reads.Load(); n > 2+sharers {
		t.Errorf("%d readings", n)
	}
	awaitIdle(c) // or one more would wait for the next reading, which is not its own
	alone := 0
	_, err := c.doTwice(context.Background(), key, Caller{}, func(context.Context, *sharedRead) error {
		alone++
		return models.ErrUnavailable
	})
	if !errors.Is(err, models.ErrUnavailable) || alone != 1 {
		t.Errorf("%d readings alone, %v", alone, err)
	}
}

// A list that cannot be encoded is nobody's: not even those who come second get an empty one.
func TestEncodingThatPanicsIsShared(t *testing.T) {
	r := &sharedRead{records: &records{bytes: []byte{usernamesRecord, 255, 255, 255, 127}}}
	for range 2 {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("there is a body")
				}
			}()
			r.body()
		}()
	}
}

// Whoever waits longer than may be is told so, and takes nothing along.
func TestWaitingEnds(t *testing.T) {
	c := newTestCoalescer()
	key := readKey{world: "w"}
	begun, goOn := make(chan struct{}), make(chan struct{})
	go c.do(context.Background(), key, Caller{}, func(_ context.Context, r *sharedRead) error {
		close(begun)
		<-goOn
		fill(r, "x")
		return nil
	})
	<-begun
	defer close(goOn)
	soon := context.WithValue(context.Background(), models.Deadline{}, time.Now().Add(time.Millisecond))
	if _, _, err := c.do(soon, key, Caller{}, nil); !errors.Is(err, models.ErrTimeout) {
		t.Errorf("at the deadline: %v", err)
	}
}
