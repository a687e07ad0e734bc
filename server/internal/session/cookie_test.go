package session

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestCookie(t *testing.T) {
	for _, test := range []struct {
		name, lines, value string
		err                error
	}{
		{"none", "", "", nil},
		{"one", "token=a", "a", nil},
		{"empty", "token=", "", nil},
		{"among others", "x=1; token=a;\ty=2", "a", nil},
		{"in the second line", "x=1\ntoken=a", "a", nil},
		{"without =", "token", "", nil},
		{"with = inside", "token=a=b", "a=b", nil},
		{"quoted", `token="a"`, `"a"`, nil},
		{"other white space", "token=a\v", "a\v", nil},
		{"odd bytes", "token=a b,\x00\xff", "a b,\x00\xff", nil},
		{"name in another case", "Token=a", "", nil},
		{"name with a space", "token =a", "", nil},
		{"beginning of a name", "tokens=a; to=b", "", nil},

		{"the same twice", "token=a; token=a", "a", nil},
		{"the same in two lines", "token=a\ntoken=a", "a", nil},
		{"two values", "token=a; token=b", "", ErrCookies},
		{"two values in two lines", "token=a\ntoken=b", "", ErrCookies},
		{"two of three", "token=a; token=a; token=b", "", ErrCookies},
		{"empty, then a value", "token=; token=a", "", ErrCookies},
		{"a value, then empty", "token=a; token=", "", ErrCookies},
		{"values in another case", "token=a; token=A", "", ErrCookies},
		{"quoted and not", `token=a; token="a"`, "", ErrCookies},
	} {
		t.Run(test.name, func(t *testing.T) {
			if value, err := Cookie(lines(test.lines), "token"); value != test.value || err != test.err {
				t.Errorf("%q, %v", value, err)
			}
		})
	}
}

// Whatever is sent, a value is one that was sent, and the order decides nothing.
func FuzzCookie(f *testing.F) {
	for _, seed := range []string{
		"", "token=a", "token=a; token=b", "token=a\ntoken=", `token="a"`, "x; =; ;;token=a=b;", "token =a", "token=\x00;\ttoken=\xff", "Token=a\n;token",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		value, err := Cookie(lines(text), "token")
		if err != nil && (!errors.Is(err, ErrCookies) || value != "" || strings.Count(text, "token=") < 2) {
			t.Fatalf("%q, %v", value, err)
		}
		if value != "" && !strings.Contains(text, "token="+value) {
			t.Fatalf("%q was not sent", value)
		}
		pairs := strings.FieldsFunc(text, func(r rune) bool { return r == ';' || r == '\n' })
		slices.Reverse(pairs)
		if v, e := Cookie(http.Header{"Cookie": {strings.Join(pairs, ";")}}, "token"); v != value || e != err {
			t.Fatalf("%q, %v, but in the other order %q, %v", value, err, v, e)
		}
	})
}

func TestSetAndClearCookies(t *testing.T) {
	for _, test := range []struct {
		name       string
		options    Options
		set, clear string
	}{
		{"production", Options{CookiePath: "/"}, "; Path=/; Max-Age=2592000; HttpOnly; Secure; SameSite=None", "; Path=/; Max-Age=0; HttpOnly; Secure; SameSite=None"},
		{"development", Options{CookiePath: "/x", Development: true}, "; Path=/x; Max-Age=2592000; HttpOnly; SameSite=Lax", "; Path=/x; Max-Age=0; HttpOnly; SameSite=Lax"},
		{
			"wide and partitioned", Options{CookiePath: "/", CookieDomain: "example.org", CookiePartitioned: true},
			"; Path=/; Domain=example.org; Max-Age=2592000; HttpOnly; Secure; SameSite=None; Partitioned",
			"; Path=/; Domain=example.org; Max-Age=0; HttpOnly; Secure; SameSite=None; Partitioned",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, _ := newTestManager(func(o *Options) {
				o.Development, o.CookiePath = test.options.Development, test.options.CookiePath
				o.CookieDomain, o.CookiePartitioned = test.options.CookieDomain, test.options.CookiePartitioned
			})
			h := http.Header{"Set-Cookie": {"other=1"}}
			m.SetCookies(h, Session{Token: "a", RefreshToken: "b"})
			m.ClearCookies(h)
			want := []string{"other=1", "token=a" + test.set, "refreshToken=b" + test.set, "token=" + test.clear, "refreshToken=" + test.clear}
			if got := h["Set-Cookie"]; !slices.Equal(got, want) {
				t.Errorf("%q", got)
			}
		})
	}
}
