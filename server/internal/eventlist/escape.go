package eventlist

import (
	"bytes"
	"encoding/binary"

	"github.com/go-json-experiment/json/jsontext"
)

// needsNoEscape reports whether a JSON string can have these bytes as they are: ASCII without quotes, backslashes and
// control characters. A line feed passes: no name has one, and appendString looks for it.
func needsNoEscape(s []byte) bool {
	for ; len(s) >= 8; s = s[8:] {
		if !needsNoEscape8(binary.LittleEndian.Uint64(s)) {
			return false
		}
	}
	rest := [8]byte{'.', '.', '.', '.', '.', '.', '.', '.'}
	copy(rest[:], s)
	return needsNoEscape8(binary.LittleEndian.Uint64(rest[:]))
}

// needsNoEscape8 looks at eight bytes at once (SWAR: SIMD within a register). Where a byte of x is zero, adding 0x7f to
// its lower seven bits leaves its top bit clear; the formula is "determine if a word has a zero byte" of Bit Twiddling
// Hacks, in its form without false positives.
func needsNoEscape8(eight uint64) bool {
	const each, top = 0x0101010101010101, 0x8080808080808080
	// equal has the top bit of each byte that is c, and no other bit.
	equal := func(c uint64) uint64 {
		x := eight ^ c*each
		return ^(x&^top + 0x7f*each | x | ^uint64(top))
	}
	if eight&top != 0 {
		return false
	}
	control := ^(eight + 0x60*each) & top // nothing carries: no byte is above 0x7f
	return control&^equal('\n')|equal('"')|equal('\\') == 0
}

// appendString writes a JSON string. Nearly all need no escape.
func appendString(b, s []byte) []byte {
	if !needsNoEscape(s) || bytes.IndexByte(s, '\n') >= 0 {
		b, _ = jsontext.AppendQuote(b, s) // invalid UTF-8, which only a hand can have written, becomes U+FFFD
		return b
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
