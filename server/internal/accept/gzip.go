// Package accept reads the header Accept-Encoding.
package accept

import (
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// Gzip reports whether a client prefers gzip to no coding, given the lines of Accept-Encoding (RFC 9110 section 12.5.3). Without
// the header any coding is acceptable, but Gzip returns false: such clients seldom decode.
func Gzip(lines []string) bool {
	list := strings.ToLower(strings.Join(lines, ","))
	gzip := weight(list, "gzip", "x-gzip") // the same coding (section 8.4.1.3)
	if gzip < 0 {
		gzip = weight(list, "*")
	}
	return gzip > 0 && gzip >= weight(list, "identity")
}

// weight returns the lowest weight that a coding has in the list, so that a refusal always counts, or -1. An invalid weight is 0.
func weight(list string, names ...string) float64 {
	lowest := -1.0
	for member := range strings.SplitSeq(list, ",") {
		coding, parameter, weighted := strings.Cut(member, ";")
		if !slices.Contains(names, textproto.TrimString(coding)) {
			continue
		}
		w := 1.0
		if weighted {
			w, _ = strconv.ParseFloat(strings.TrimPrefix(textproto.TrimString(parameter), "q="), 64)
			w = max(w, 0)
		}
		if lowest < 0 || w < lowest {
			lowest = w
		}
	}
	return lowest
}
