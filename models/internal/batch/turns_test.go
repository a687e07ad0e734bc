package batch

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// turnsModel is what Turns must be like: callers of a few keys come, work, and give up, in any order.
type turnsModel struct {
	turns   *Turns[string]
	places  int
	callers []*turnCaller // who wait, and who have their turn
}

var turnKeys = []string{"a", "b", "c", "d"}

type turnCaller struct {
	key    string
	until  time.Time
	cancel context.CancelFunc
	got    chan turnTaken
	leave  func(free bool) // nil for one who waits
}

type turnTaken struct {
	leave func(free bool)
	err   error
}

func (m *turnsModel) come(t *rapid.T) {
	ctx, cancel := context.WithCancel(context.Background())
	c := &turnCaller{key: rapid.SampledFrom(turnKeys).Draw(t, "key"), cancel: cancel, got: make(chan turnTaken, 1)}
	minutes := rapid.IntRange(0, 4).Draw(t, "minutes of patience")
	c.until = time.Now().Add(time.Duration(minutes)*time.Minute + 30*time.Second)
	go func() {
		leave, err := m.turns.Take(ctx, c.key, c.until)
		c.got <- turnTaken{leave, err}
	}()
	m.callers = append(m.callers, c)
}

// some returns one of those who have their turn, or of those who wait.
func (m *turnsModel) some(t *rapid.T, haveTurn bool) *turnCaller {
	some := slices.DeleteFunc(slices.Clone(m.callers), func(c *turnCaller) bool { return (c.leave != nil) != haveTurn })
	if len(some) == 0 {
		t.Skip()
	}
	return rapid.SampledFrom(some).Draw(t, "caller")
}

func (m *turnsModel) remove(c *turnCaller) {
	c.cancel()
	m.callers = slices.DeleteFunc(m.callers, func(other *turnCaller) bool { return other == c })
}

func (m *turnsModel) finish(t *rapid.T) {
	c, free := m.some(t, true), rapid.Bool().Draw(t, "free")
	c.leave(free)
	m.remove(c)
	for _, other := range slices.Clone(m.callers) {
		if free && other.key == c.key {
			m.expectEnd(t, other, ErrFree)
		}
	}
}

// giveUp ends a context: who waits learns of it, and who works goes on.
func (m *turnsModel) giveUp(t *rapid.T) {
	if len(m.callers) == 0 {
		t.Skip()
	}
	c := rapid.SampledFrom(m.callers).Draw(t, "caller")
	c.cancel()
	m.expectEnd(t, c, context.Canceled)
}

// pass lets a minute pass, and expects that those whose patience is over are told so.
func (m *turnsModel) pass(t *rapid.T) {
	time.Sleep(time.Minute)
	for _, c := range slices.Clone(m.callers) {
		if c.until.Before(time.Now()) {
			m.expectEnd(t, c, context.DeadlineExceeded)
		}
	}
}

func (m *turnsModel) expectEnd(t *rapid.T, c *turnCaller, want error) {
	if c.leave != nil {
		return
	}
	synctest.Wait()
	select {
	case taken := <-c.got:
		if !errors.Is(taken.err, want) {
			t.Fatalf("%s: %v, want %v", c.key, taken.err, want)
		}
	default:
		t.Fatalf("%s waits on, want %v", c.key, want)
	}
	m.remove(c)
}

// check takes note of those whose turn has come, once nothing happens any more. One of each key has its turn
// and a place, as far as the places go.
func (m *turnsModel) check(t *rapid.T) {
	synctest.Wait()
	working, known := make(map[string]int), make(map[string]bool)
	for _, c := range m.callers {
		select {
		case taken := <-c.got:
			if taken.err != nil {
				t.Fatalf("%s: %v", c.key, taken.err)
			}
			c.leave = taken.leave
		default:
		}
		known[c.key] = true
		if c.leave != nil {
			working[c.key]++
		}
	}
	for key, n := range working {
		if n > 1 {
			t.Fatalf("%d of %s work at once", n, key)
		}
	}
	if want := min(m.places, len(known)); len(working) != want {
		t.Fatalf("%d work, want %d", len(working), want)
	}
	if rows, calls := m.turns.Len(); rows != len(known) || calls != len(m.callers) {
		t.Fatalf("%d rows and %d calls are known, want %d and %d", rows, calls, len(known), len(m.callers))
	}
	for _, key := range turnKeys {
		if _, ok := m.turns.First(func() []string { return []string{key} }); ok != known[key] {
			t.Fatalf("%s is known: %t, want %t", key, ok, known[key])
		}
	}
}

// Callers of one key come one after the other, and all together have so many places, which whoever gives up or ends leaves to
// others. Once one has found its row free, no other waits for that row. Nothing is known of a row that nobody needs.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(struct{ rapid.TB }{t}, func(t *rapid.T) { // whose Deadline may not be asked for in a bubble
			m := &turnsModel{places: rapid.IntRange(1, 3).Draw(t, "places")}
			m.turns = NewTurns[string](m.places)
			t.Repeat(map[string]func(*rapid.T){
				"come": m.come, "come, too": m.come, "finish": m.finish, "give up": m.giveUp, "pass": m.pass, "": m.check,
			})
			for len(m.callers) > 0 {
				m.finish(t)
				m.check(t)
			}
		})
	})
}
