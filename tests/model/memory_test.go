package model

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"worldevents/tests/servicetest"
)

// slowReaders are how many read one large list at once, one after the other, so that each may hold a reading of their own.
const slowReaders = 6

// mostHeld is what a slow reader may cost beside the list, buffers of TLS and HTTP on both sides included.
const mostHeld = 3 << 20

// TestMemory has clients read large worlds slowly, and looks at what the service holds for them. Nothing else runs
// meanwhile: server and test share a heap.
func TestMemory(t *testing.T) {
	sites := []*site{newSite(t, servicetest.SQLite(t)), newSite(t, servicetest.Postgres(t))}
	repeat(t, 1, memoryShare, func() {
		rapid.Check(silent{t}, func(t *rapid.T) {
			m := newMachine(t, rapid.SampledFrom(sites).Draw(t, "site"))
			m.report(t)
			m.guarded(m.holdSome)(t)
			for _, s := range m.streams {
				s.close()
			}
			m.report(t)
		})
	})
}

// shapes of worlds are numbers of events, of letters in their descriptions, and of RSVPs of each. Names have 100 bytes
// more or less. All come to some megabytes, in many small parts or in few large ones.
var shapes = [][3]int{
	{127, 4990, 256}, {128, 4990, 0}, {300, 4990, 100}, {1000, 1000, 0}, {127, 0, 256}, {129, 0, 257}, {1000, 250, 40}, {5, 4990, 4096}, {1, 0, 20000},
}

// holdSome makes a world of large events, and reads it slowly.
func (m *machine) holdSome(t *rapid.T) {
	shape := shapes[rapid.IntRange(0, len(shapes)-1).Draw(t, "shape")]
	events, letters, users := shape[0], shape[1], shape[2]
	ok(m.addBulk(m.world, bulk{n: events, at: noon, step: 1, text: strings.Repeat("😀", letters)}))
	crowd, err := m.site.crowd(m.state, users, 100)
	ok(err)
	for _, e := range m.world.events {
		ok(m.fill(e, crowd, past, true))
	}
	size := len(body(m.world.events))
	for _, e := range m.world.events {
		e.json = ""
	}
	q := wholeWorld()
	if rapid.Bool().Draw(t, "limited") {
		q.most, q.limit = 1000, "1000"
	}
	before := heap()
	for range slowReaders {
		s, err := m.open(m.user(t), m.instance(t), m.world, q)
		ok(err)
		m.streams = append(m.streams, s)
		_, err = s.some(1 << 10)
		ok(err)
		s.read.Reset()
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		held := heap() - before // a flight is over soon after the first byte of its response
		if held < slowReaders*(mostHeld+int64(size)*5/4) {
			return
		}
		if time.Now().After(deadline) {
			fail("slow readers are expensive: %d hold %d bytes, of a list of %d bytes", slowReaders, held, size)
		}
	}
}

// heap is how much memory is in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // empties pools
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
