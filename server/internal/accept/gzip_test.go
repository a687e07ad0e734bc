package accept

import (
	"strings"
	"testing"
)

func TestGzip(t *testing.T) {
	for _, test := range []struct {
		lines string // separated by |
		want  bool
	}{
		{"gzip", true},
		{"GZip", true},
		{"x-gzip", true},
		{"deflate, gzip, br, zstd", true},
		{"gzip;q=1.0, identity; q=0.5, *;q=0", true},
		{"compress;q=0.5, gzip;q=1.0", true},
		{" gzip\t; Q=0.001 ", true},
		{",, gzip ,", true},
		{"gzip;q=1.", true},
		{"gzip;q=1.000", true},
		{"br|gzip", true},
		{"*", true},
		{"*;q=0.1", true},
		{"gzip, *;q=0", true},
		{"gzip, identity;q=0", true},
		{"gzip, identity", true},
		{"gzip;q=0.5, identity;q=0.5", true},
		{"gzip;q=0.5, *", true}, // "*" says nothing about identity, which is no coding of its own

		{"", false},
		{" ", false},
		{"identity", false},
		{"br, deflate", false},
		{"gzip;q=0", false},
		{"gzip;q=0.", false},
		{"gzip;q=0.000", false},
		{"gzip;q=0, *", false},
		{"*, gzip;q=0", false},
		{"*|gzip;q=0", false},
		{"x-gzip;q=0, *", false},
		{"gzip, gzip;q=0", false},
		{"gzip;q=0|gzip", false},
		{"*;q=0", false},
		{"identity;q=0", false},
		{"identity, gzip;q=0.5", false},
		{"identity;q=0.5, *;q=0.499", false},
		{"gzip;q=0.5;q=1", false},
		{"gzip;level=9", false},
		{"gzip;", false},
		{"gzip;q", false},
		{"gzip;q=", false},
		{"gzip;q= 1", false},
		{"gzip;q=-1", false},
		{"gzip;q=0x5", false},
		{"gzip;q=0.5x", false},
		{"gzip;Ñ=1, *", false},
		{"gzip deflate", false},
		{"gzipped, notgzip, \"gzip\"", false},
		{"gz\u0131p", false},
		{"\x00\xff;;;q=q=,=", false},
	} {
		if got := Gzip(strings.Split(test.lines, "|")); got != test.want {
			t.Errorf("%q: %v", test.lines, got)
		}
	}
	if Gzip(nil) {
		t.Error("without the header")
	}
}

// Whatever is sent, a refusal that stands beside it is respected.
func FuzzGzip(f *testing.F) {
	for _, line := range []string{"gzip", "*;q=0.5", "identity;q=0", ",;q=,", "gzip;q=1.000;"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		Gzip([]string{line})
		if Gzip([]string{line, "gzip;q=0"}) || Gzip([]string{"x-gzip;q=0", line}) {
			t.Errorf("%q overrules a refusal", line)
		}
	})
}

func BenchmarkGzip(b *testing.B) {
	lines := []string{"gzip, deflate, br, zstd"}
	b.ReportAllocs()
	for b.Loop() {
		Gzip(lines)
	}
}
