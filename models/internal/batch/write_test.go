package batch

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Edits, joins and leaves of one event stand together, whatever the other events are, and the edits first: a removal waits for those who
// join or leave its event, so that two transactions with both would else wait for each other.
func TestCompare(t *testing.T) {
	var want []Write
	for _, kinds := range [][]Kind{{Creates}, {Edits, Joins, Leaves}, {Refreshes}} {
		for event := range byte(3) {
			for _, kind := range kinds {
				for user := range byte(2) {
					want = append(want, Write{Kind: kind, Event: [16]byte{event}, User: [16]byte{user}})
				}
			}
		}
	}
	got := slices.Clone(want)
	for range 100 {
		rand.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		slices.SortFunc(got, func(a, b Write) int { return Compare(&a, &b) })
		for i := range want {
			if Compare(&got[i], &want[i]) != 0 {
				t.Fatalf("write %d is %+v, want %+v", i, got[i], want[i])
			}
		}
	}
}
