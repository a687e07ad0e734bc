package faults

import (
	"testing"

	"worldevents/tests/servicetest"
)

// The heap has a ballast of 32 MB that takes no memory, wherever in the heap it comes to lie: collecting all the time makes that
// differ from start to start.
func TestBallastTakesNoMemory(t *testing.T) {
	t.Parallel()
	program := servicetest.NewProgram(t, "GOGC=1")
	for range 15 {
		p := program.ServeReady()
		if memory := p.Memory("RssAnon"); memory > 25<<20 {
			t.Errorf("%d MB", memory>>20)
		}
		if next := p.Metric("go_memstats_next_gc_bytes"); next < 32<<20 {
			t.Errorf("a heap of %.0f bytes is collected: it has no ballast", next)
		}
		p.Stop()
	}
}
