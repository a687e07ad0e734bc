package accept

import (
	"net/textproto"
	"strings"
)

// Gzip reports whether a response should be encoded as gzip, given the lines of Accept-Encoding (RFC 9110 section
// 12.5.3). Without the header it reports false, although any encoding is acceptable then: such clients seldom decode.
func Gzip(lines []string) bool {
	gzip, identity, others := unlisted, unlisted, unlisted
	for _, line := range lines {
		for member := range strings.SplitSeq(line, ",") {
			coding, parameter, weighted := strings.Cut(member, ";")
			w := weight(1000)
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
	}
	if gzip == unlisted {
		gzip = others
	}
	return gzip > 0 && gzip >= identity
}

// weight is a qvalue in thousandths (RFC 9110 section 12.4.2), or unlisted. Zero means "not acceptable".
type weight int

const unlisted weight = -1

// and is the weight of a coding that is listed once more. The lower one counts, so that a refusal is never overruled.
func (w weight) and(again weight) weight {
	if w == unlisted {
		return again
	}
	return min(w, again)
}

// parseWeight reads "q=" and a qvalue. What is neither has weight 0: a coding with a parameter that cannot be read is
// not known to be acceptable.
func parseWeight(text string) weight {
	if len(text) < 3 || len(text) > len("q=0.123") || text[0]|0x20 != 'q' || text[1] != '=' {
		return 0
	}
	whole, decimals := text[2], text[3:]
	if whole != '0' && whole != '1' || decimals != "" && decimals[0] != '.' {
		return 0
	}
	w, unit := weight(whole-'0')*1000, weight(100)
	for i := 1; i < len(decimals); i++ {
		if decimals[i] < '0' || decimals[i] > '9' {
			return 0
		}
		w += weight(decimals[i]-'0') * unit
		unit /= 10
	}
	if w > 1000 {
		return 0
	}
	return w
}
