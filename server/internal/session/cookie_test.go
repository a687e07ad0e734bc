package session

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Whatever is sent, a value is one that was sent, and the order decides nothing.
func FuzzCookie(f *testing.F) {
	for _, seed := range []string{
		"", "token=a", "token=a; token=b", "token=a\ntoken=", `token="a"`, "x; =; ;;token=a=b;", "token =a", "token=\x00;\ttoken=\xff", "Token=a\n;token",
		"token=a; refreshToken=b; token=a", "refreshToken=a; refreshToken=b; token=",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cookies := ReadCookies(lines(text))
		pairs := strings.FieldsFunc(text, func(r rune) bool { return r == ';' || r == '\n' })
		slices.Reverse(pairs)
		reversed := ReadCookies(http.Header{"Cookie": {strings.Join(pairs, ";")}})
		conflict := false
		for name, c := range map[string][2]cookie{"token": {cookies.token, reversed.token}, "refreshToken": {cookies.refreshToken, reversed.refreshToken}} {
			value, err := c[0].value()
			values := c[0].values()
			if (err != nil) != (len(values) > 1) || err != nil && (err != ErrInvalid || value != "") || err == nil && len(values) == 1 && values[0] != value {
				t.Fatalf("%s: %q, %v of %q", name, value, err, values)
			}
			for i, v := range values {
				if !strings.Contains(text, name+"="+v) {
					t.Fatalf("%q was not sent", v)
				}
				if slices.Contains(values[:i], v) {
					t.Fatalf("%q twice in %q", v, values)
				}
			}
			if len(values) > maxValues || len(values) > strings.Count(text, name+"=") {
				t.Fatalf("%d values", len(values))
			}
			if v, e := c[1].value(); v != value || e != err {
				t.Fatalf("%q, %v, but in the other order %q, %v", value, err, v, e)
			}
			conflict = conflict || err != nil
		}
		if cookies.Conflict() != conflict {
			t.Fatalf("conflict is %v", cookies.Conflict())
		}
	})
}
