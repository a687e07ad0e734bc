package server

import "testing"

// A user may write ten times as often at once as in a second, and always once.
func TestWriteBurst(t *testing.T) {
	for perSecond, want := range map[float64]int{10: 100, 2.5: 25, 0.5: 5, 0.001: 1, 1e9: 1e10} {
		if got := writeBurst(perSecond); got != want {
			t.Errorf("%g a second: %d at once, want %d", perSecond, got, want)
		}
	}
}
