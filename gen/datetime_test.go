package gen

import (
	"math/rand/v2"
	"testing"
	"time"
)

// What is written by hand is what Go writes.
func TestDateTimeText(t *testing.T) {
	for range 20_000 {
		at := time.UnixMicro(rand.Int64N(253402300800e6)).In(time.FixedZone("", rand.IntN(28*3600)-14*3600))
		if got, want := DateTime(at).String(), at.UTC().Format(dateTimeLayout); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
}
