package names

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestNormalize(t *testing.T) {
	for _, test := range []struct{ name, want string }{
		{"alice", "alice"}, {"Alice", "Alice"}, {"Zoë Ω", "Zoë Ω"}, {"Zoe\u0308", "Zoë"}, {"❤", "❤"}, {"李 明", "李 明"},
		{"alice ", "alice"}, {"\u00a0 al  ice\u3000", "al ice"}, {"ａｌｉｃｅ", "alice"}, {"ﬁona", "fiona"},
		{"علی\u200cرضا", "علی\u200cرضا"}, // Persian spells so
		{"al\u200bice", ""}, {"al\u200cice", ""}, {"al\u200dice", ""}, {"al\u2060ice", ""}, {"al\u00adice", ""}, {"\ufeffalice", ""},
		{"al\u034fice", ""}, {"alice\ufe0f", ""}, {"\u202ealice", ""}, {"al\u2066ice", ""}, {"alice\U000e0061", ""},
		{"alice\u2800", ""}, {"\u3164", ""}, {"a\ufffcb", ""}, {"a\U0001d159b", ""}, {"a\ue000", ""}, {"\u0378", ""},
		{"alice\U00013440", ""}, {"a\u0300\u0591", ""}, {"5\u0902", ""}, {"\u0902a", ""}, {"अनिता", "अनिता"}, {"שָׁלוֹם", "שָׁלוֹם"}, {"มนี", "มนี"}, {"محمّد", "محمّد"},
		{"a\nb", ""}, {"a\u2028b", ""}, {"a\xffb", ""}, {"", ""}, {" \u2003", ""},
		{strings.Repeat("é", 100), strings.Repeat("é", 100)}, {strings.Repeat("é", 101), ""},
		{strings.Repeat("ﷺ", 6), ""}, // 108 characters
		{"a" + strings.Repeat(" ", 1000) + "b", "a b"}, {"a" + strings.Repeat(" ", 10_000) + "b", ""},
	} {
		if got := Normalize(test.name); got != test.want {
			t.Errorf("%q: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestLookalikes(t *testing.T) {
	for _, test := range []struct {
		a, b  string
		alike bool
	}{
		{"alice", "Alice", true}, {"alice", "ALICE", true}, {"alice", " alice\u00a0", true}, {"al ice", "al\u2003\u2003ice", true},
		{"alice", "al\u200bice", true}, {"alice", "alice\ufe0f", true}, {"alice", "ａｌｉｃｅ", true}, {"alice", "alice\u2800", true},
		{"alice", "аlice", true}, {"alice", "аӏісе", true}, {"Alice", "Αlice", true}, {"alice", "aIice", true}, {"alice", "a1ice", true},
		{"alice", "al\u0456ce", true}, {"bob", "Вob", true}, {"bob", "BОB", true}, {"bob", "b0b", true}, {"BOB", "b0b", true},
		{"nick", "Νick", true}, {"vera", "νera", true}, {"вера", "Вера", true}, {"Вера", "ВЕРА", true}, {"σασ", "ΣΑΣ", true},
		{"mary", "Mary", true}, {"mary", "rnary", true}, {"MARY", "mary", true}, {"Straße", "STRASSE", true},
		{"alice", "АLICE", true}, {"mary", "Мary", true}, // the first letters are Cyrillic
		{"علی\u200cرضا", "علیرضا", true}, {"alice-2", "alice‐2", true}, {"alice-2", "alice－2", true},
		{"alice", "alicia", false}, {"Zoë", "Zoe", false}, {"al ice", "alice", false}, {"alice-2", "alice-3", false}, {"李", "明", false},
	} {
		alike := Fold(test.a) == Fold(test.b) || Skeleton(test.a) == Skeleton(test.b)
		if alike != test.alike {
			t.Errorf("%q and %q: %q %q, %q %q", test.a, test.b, Fold(test.a), Fold(test.b), Skeleton(test.a), Skeleton(test.b))
		}
	}
}

// Whatever a provider calls somebody is refused or becomes a username, which stays what it is.
func FuzzNormalize(f *testing.F) {
	for _, name := range []string{"alice ", "ａ", "\u200b", "ﷺ", "Σς", "क\u094d\u200dष", "\xff"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		Fold(name)
		Skeleton(name)
		got := Normalize(name)
		if got == "" {
			return
		}
		if !Valid(got) || strings.TrimSpace(got) != got || Normalize(got) != got {
			t.Errorf("%q became %q", name, got)
		}
		if folded := Fold(got); folded != Fold(name) || folded == "" || !utf8.ValidString(folded+Skeleton(got)) {
			t.Errorf("%q is folded to %q, %q to %q", got, folded, name, Fold(name))
		}
	})
}
