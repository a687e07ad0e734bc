package names

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"go.mau.fi/util/confusable"
	"golang.org/x/text/cases"
	"golang.org/x/text/secure/precis"
	"golang.org/x/text/unicode/norm"
)

// blanks show nothing although PRECIS takes them for visible: the empty Braille cell, an embedded object, a musical note without a head.
const blanks = "\u2800\ufffc\U0001d159"

// maxExternalName bounds the names that are looked at, in bytes, since a provider may send a megabyte.
const maxExternalName = 4 << 10

// Normalize writes a name from elsewhere as a nickname (RFC 8266 section 2): white space becomes one space and never stands at an end, and
// letters of full width and other compatible forms become the usual ones. It returns "" for a name with characters that are invisible or
// not assigned, with a mark of another script than its base's, or whose result is no username or is too long.
func Normalize(name string) string {
	if len(name) > maxExternalName {
		return ""
	}
	name, err := precis.Nickname.String(name)
	if err != nil || strings.ContainsAny(name, blanks) || !Valid(name) || hasForeignMark(name) {
		return ""
	}
	return name
}

// hasForeignMark reports whether a name has a mark of another script than its base: in most fonts the name looks as without it.
func hasForeignMark(name string) bool {
	var base rune
	for _, r := range name {
		if !unicode.In(r, unicode.Mn, unicode.Me) {
			base = r
			continue
		}
		for _, script := range unicode.Scripts { // UAX 24: a character has one
			if script != unicode.Inherited && unicode.Is(script, r) && !unicode.Is(script, base) {
				return true
			}
		}
	}
	return false
}

// Fold returns a text that is equal for names that differ only in case, white space, compatible forms and invisible characters. RFC 8266
// section 2.4 compares so, but only names that Normalize accepts; Fold takes every name.
func Fold(name string) string {
	return spaced(cases.Fold().String(spaced(name)))
}

// Skeleton returns a text that is equal for names that look alike: Unicode's skeleton (UTS 39 section 4), without regard to case. The case
// of a letter decides its look, so the skeleton of the folded name follows: I looks like l, therefore i counts as l, too.
func Skeleton(name string) string {
	folded := cases.Fold().String(confusable.Skeleton(spaced(name)))
	return spaced(strings.ReplaceAll(confusable.Skeleton(folded), "i", "l"))
}

// spaced returns a name in compatible forms (NFKC), without invisible characters, and with single spaces. It normalizes twice, because
// removing characters may bring others together that compose.
func spaced(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsGraphic(r), strings.ContainsRune(blanks, r),
			unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
			return -1
		}
		return r
	}, norm.NFKC.String(name))
	return strings.Join(strings.Fields(norm.NFKC.String(name)), " ")
}

// Valid reports whether name is 1 to 100 code points of valid UTF-8, not only white space, without control characters.
func Valid(name string) bool {
	visible := false
	for _, r := range name {
		if unicode.IsControl(r) {
			return false
		}
		visible = visible || !unicode.IsSpace(r)
	}
	return visible && utf8.ValidString(name) && utf8.RuneCountInString(name) <= 100
}
