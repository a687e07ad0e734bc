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

// blanks are the symbols that show nothing and that PRECIS takes for visible: an empty Braille cell, a place for an
// embedded object, and a musical note without a head.
const blanks = "\u2800\ufffc\U0001d159"

// maxExternalName bounds the names that are looked at, in bytes: a provider may send a megabyte.
const maxExternalName = 4 << 10

// Normalize spells a name that somebody chose elsewhere as a nickname (RFC 8266 section 2): white space is one
// space and never at an end, letters of full width and other compatible forms are the usual ones. It returns "" for a
// name with characters that are invisible or not assigned, and for one that is then no username or is too long.
func Normalize(name string) string {
	if len(name) > maxExternalName {
		return ""
	}
	name, err := precis.Nickname.String(name)
	if err != nil || strings.ContainsAny(name, blanks) || !Valid(name) {
		return ""
	}
	return name
}

// Fold returns a text that is equal for names which differ in case, white space, compatible forms and invisible
// characters (as RFC 8266 section 2.4 compares, but for every name).
func Fold(name string) string {
	return spaced(cases.Fold().String(spaced(name)))
}

// Skeleton returns a text that is equal for names which look alike: Unicode's skeleton (UTS 39 section 4) without
// regard to case. A second skeleton follows because the case of a letter decides what it looks like. So i is l, as I is.
func Skeleton(name string) string {
	folded := cases.Fold().String(confusable.Skeleton(spaced(name)))
	return spaced(strings.ReplaceAll(confusable.Skeleton(folded), "i", "l"))
}

// spaced returns a name in compatible forms (NFKC), without invisible characters, and with one space for white space.
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

// Valid reports whether name is 1 to 100 code points of valid UTF-8, not only white space, without control
// characters.
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
