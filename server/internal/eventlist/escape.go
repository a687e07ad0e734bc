package eventlist

import "github.com/go-json-experiment/json/jsontext"

// plain has the bytes that stand for themselves in a JSON string: ASCII without quotes, backslashes and control characters.
var plain = func() (plain [256]bool) {
	for c := ' '; c < 0x80; c++ {
		plain[c] = c != '"' && c != '\\'
	}
	return plain
}()

// plainPrefix returns how many bytes of s come before the first that is not plain.
func plainPrefix(s []byte) int {
	for i, c := range s {
		if !plain[c] {
			return i
		}
	}
	return len(s)
}

// appendString writes a JSON string. Nearly all are plain.
func appendString(b, s []byte) []byte {
	if plainPrefix(s) < len(s) {
		b, _ = jsontext.AppendQuote(b, s) // invalid UTF-8, which only a hand can have written, becomes U+FFFD
		return b
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
