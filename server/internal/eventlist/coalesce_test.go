package eventlist

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"worldevents/models"
)

func newTestCoalescer(read func(context.Context, *sharedRead) error) *coalescer {
	return &coalescer{read: read, running: make(map[readKey]*sharedRead), timeout: 10 * time.Second}
}

// ask is do of anybody.
func (c *coalescer) ask(ctx context.Context) (*sharedRead, error) {
	return c.do(ctx, readKey{world: "w"}, models.ListOptions{}, models.Caller{})
}

// aList is the list of a reading in a test.
func aList(text string) *heldList {
	return &heldList{etag: text, json: bytes.Repeat([]byte(text), 4096/len(text))}
}

// A reading that is shared began after all who share it asked.
func TestSharedReadingsAreFresh(t *testing.T) {
	var clock, reads atomic.Int64
	c := newTestCoalescer(func(_ context.Context, r *sharedRead) error {
		r.held = aList(fmt.Sprint(clock.Add(1)))
		reads.Add(1)
		return nil
	})
	var wait sync.WaitGroup
	const clients, rounds = 16, 200
	for range clients {
		wait.Go(func() {
			for range rounds {
				asked := clock.Add(1)
				var began int64
				r, err := c.ask(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				fmt.Sscan(r.held.etag, &began)
				if began < asked {
					t.Errorf("asked at %d, and the reading began at %d", asked, began)
				}
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
				var again atomic.Bool
				c := newTestCoalescer(func(_ context.Context, r *sharedRead) error {
					if again.Swap(true) {
						r.held = aList("x")
						return nil
					}
					time.Sleep(time.Second)
					return fail()
				})
				go func() {
					if _, err := c.ask(t.Context()); err == nil {
						t.Error("the reading that failed has no error")
					}
				}()
				synctest.Wait()
				for range 8 { // all wait for the next reading, which works
					go func() {
						if _, err := c.ask(t.Context()); err != nil {
							t.Error(err)
						}
					}()
				}
				time.Sleep(time.Minute)
			})
		})
	}
}
