package accept

import (
	"strings"
	"testing"
)

func TestGzip(t *testing.T) {
	for want, all := range map[bool][]string{ // of each the lines are separated by |
		true: { // "*" says nothing about identity, which is no coding of its own
			"gzip", "GZip", "x-gzip", "deflate, gzip, br, zstd", "gzip;q=1.0, identity; q=0.5, *;q=0", "compress;q=0.5, gzip;q=1.0", " gzip\t; Q=0.001 ",
			",, gzip ,", "gzip;q=1.", "gzip;q=1.000", "br|gzip", "*", "*;q=0.1", "gzip, *;q=0", "gzip, identity;q=0", "gzip, identity",
			"gzip;q=0.5, identity;q=0.5", "gzip;q=0.5, *",
		},
		false: {
			"", " ", "identity", "br, deflate", "gzip;q=0", "gzip;q=0.", "gzip;q=0.000", "gzip;q=0, *", "*, gzip;q=0", "*|gzip;q=0", "x-gzip;q=0, *",
			"gzip, gzip;q=0", "gzip;q=0|gzip", "*;q=0", "identity;q=0", "identity, gzip;q=0.5", "identity;q=0.5, *;q=0.499", "gzip;q=0.5;q=1", "gzip;level=9",
			"gzip;", "gzip;q", "gzip;q=", "gzip;q= 1", "gzip;q=-1", "gzip;q=0x5", "gzip;q=0.5x",
			"gzip;Ñ=1, *", "gzip deflate", "gzipped, notgzip, \"gzip\"", "gz\u0131p", "\x00\xff;;;q=q=,=",
		},
	} {
		for _, lines := range all {
			if got := Gzip(strings.Split(lines, "|")); got != want {
				t.Errorf("%q: %v", lines, got)
			}
		}
	}
	if Gzip(nil) {
		t.Error("without the header")
	}
}
