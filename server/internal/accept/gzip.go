package accept

import (
	"net/textproto"
	"regexp"
	"strconv"
	"strings"
)

// Gzip reports whether a response should be encoded as gzip, given the lines of Accept-Encoding (RFC 9110 section
// 12.5.3). Without the header it reports false, although any encoding is acceptable then: such clients seldom decode.
func Gzip(lines []string) bool {
	gzip, identity, others := unlisted, unlisted, unlisted
	for member := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		coding, parameter, weighted := strings.Cut(member, ";")
		w := weight(1)
		if weighted {
			w = parseWeight(textproto.TrimString(parameter))
		}
		switch strings.ToLower(textproto.TrimString(coding)) {
		case "gzip", "x-gzip": // the same coding (section 8.4.1.3)
			gzip = gzip.and(w)
		case "identity":
			identity = identity.and(w)
		case "*":
			others = others.and(w)
		}
	}
	if gzip == unlisted {
		gzip = others
	}
	return gzip > 0 && gzip >= identity
}

// weight is a qvalue (RFC 9110 section 12.4.2), or unlisted. Zero means "not acceptable".
type weight float64

const unlisted weight = -1

// and is the weight of a coding that is listed once more. The lower one counts, so that a refusal is never overruled.
func (w weight) and(again weight) weight {
	if w == unlisted {
		return again
	}
	return min(w, again)
}

// qvalue is how a weight is spelled.
var qvalue = regexp.MustCompile(`^[qQ]=(0(\.[0-9]{0,3})?|1(\.0{0,3})?)$`)

// parseWeight reads "q=" and a qvalue. What is neither has weight 0: a coding with a parameter that cannot be read is
// not known to be acceptable.
func parseWeight(text string) weight {
	if !qvalue.MatchString(text) {
		return 0
	}
	w, _ := strconv.ParseFloat(text[len("q="):], 64)
	return weight(w)
}
