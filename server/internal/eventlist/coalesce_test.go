package eventlist

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
	synctest.Test(t, testBuffersHaveOneOwner)
}

func testBuffersHaveOneOwner(t *testing.T) {
	delays.Store(true)
	defer delays.Store(false)
	const clients, worlds, rounds = 48, 16, 100
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
	time.Sleep(time.Second) // those who read may yet be handing over
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
	for name, fail := range map[string]func() error{
		"error": func() error { return models.ErrUnavailable },
		"panic": func() error { panic("oh") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTestCoalescer()
				key := readKey{world: "w"}
				go func() {
					_, _, err := c.do(t.Context(), key, Caller{}, func(context.Context, *sharedRead) error {
						time.Sleep(time.Second)
						return fail()
					})
					if err == nil {
						t.Error("the reading that failed has no error")
					}
				}()
				synctest.Wait()
				for range 8 { // all wait for the next reading, which works
					go func() {
						r, shared, err := c.do(t.Context(), key, Caller{}, func(_ context.Context, r *sharedRead) error {
							fill(r, "x")
							return nil
						})
						if err != nil || !shared {
							t.Errorf("shared %v, %v", shared, err)
							return
						}
						r.release()
					}()
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// Those who shared a reading that failed try once more, together; whoever read alone does not.
func TestSharersTryAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCoalescer()
		key := readKey{world: "w"}
		reads := 0
		// The second reading fails for all who waited during the first. One of them reads at once, and the others together after that.
		read := func(_ context.Context, r *sharedRead) error {
			reads++
			if reads == 2 {
				return models.ErrUnavailable
			}
			time.Sleep(time.Second)
			fill(r, "x")
			return nil
		}
		for range 9 {
			go func() {
				r, err := c.doTwice(t.Context(), key, Caller{}, read)
				if err != nil {
					t.Error(err)
					return
				}
				r.release()
			}()
		}
		time.Sleep(time.Minute)
		if reads != 4 || len(c.running) > 0 {
			t.Errorf("%d readings, %d run", reads, len(c.running))
		}
		alone := 0
		_, err := c.doTwice(t.Context(), key, Caller{}, func(context.Context, *sharedRead) error {
			alone++
			return models.ErrUnavailable
		})
		if !errors.Is(err, models.ErrUnavailable) || alone != 1 {
			t.Errorf("%d readings alone, %v", alone, err)
		}
	})
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
	synctest.Test(t, func(t *testing.T) {
		c := newTestCoalescer()
		key := readKey{world: "w"}
		go c.do(t.Context(), key, Caller{}, func(_ context.Context, r *sharedRead) error {
			time.Sleep(time.Minute)
			fill(r, "x")
			return nil
		})
		synctest.Wait()
		for _, most := range []time.Duration{time.Second, 2 * c.timeout} {
			begin := time.Now()
			ctx := context.WithValue(t.Context(), models.Deadline{}, begin.Add(most))
			if _, _, err := c.do(ctx, key, Caller{}, nil); !errors.Is(err, models.ErrTimeout) || time.Since(begin) != min(most, c.timeout) {
				t.Errorf("after %v of %v: %v", time.Since(begin), most, err)
			}
		}
		time.Sleep(time.Minute)
	})
}
