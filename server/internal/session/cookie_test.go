package session

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestReadCookies(t *testing.T) {
	for _, test := range []struct {
		name, lines string
		values      []string
	}{
		{"none", "", nil},
		{"one", "token=a", []string{"a"}},
		{"empty", "token=", []string{""}},
		{"among others", "x=1; token=a;\ty=2", []string{"a"}},
		{"in the second line", "x=1\ntoken=a", []string{"a"}},
		{"without =", "token", nil},
		{"with = inside", "token=a=b", []string{"a=b"}},
		{"quoted", `token="a"`, []string{`"a"`}},
		{"other white space", "token=a\v", []string{"a\v"}},
		{"odd bytes", "token=a b,\x00\xff", []string{"a b,\x00\xff"}},
		{"name in another case", "Token=a", nil},
		{"name with a space", "token =a", nil},
		{"beginning of a name", "tokens=a; to=b", nil},

		{"the same twice", "token=a; token=a", []string{"a"}},
		{"the same in two lines", "token=a\ntoken=a", []string{"a"}},
		{"two values", "token=b; token=a", []string{"b", "a"}},
		{"two values in two lines", "token=a\ntoken=b", []string{"a", "b"}},
		{"two of three", "token=a; token=a; token=b", []string{"a", "b"}},
		{"three, and each again", "token=c; token=a; token=b; token=b; token=a; token=c", []string{"c", "a", "b"}},
		{"empty, then a value", "token=; token=a", []string{"", "a"}},
		{"a value, then empty", "token=a; token=", []string{"a", ""}},
		{"values in another case", "token=a; token=A", []string{"a", "A"}},
		{"quoted and not", `token=a; token="a"`, []string{"a", `"a"`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			value, err := "", error(nil)
			switch len(test.values) {
			case 0:
			case 1:
				value = test.values[0]
			default:
				err = ErrInvalid
			}
			conflict := len(test.values) > 1
			c := ReadCookies(lines(test.lines))
			if v, e := c.Token(); v != value || e != err || c.Conflict() != conflict || !slices.Equal(c.token.values(), test.values) {
				t.Errorf("token: %q, %v, %v of %q", v, e, c.Conflict(), c.token.values())
			}
			if _, e := c.RefreshToken(); e != ErrNoToken || c.refreshToken.values() != nil {
				t.Errorf("refreshToken: %v", e)
			}
			// The same for the other name.
			c = ReadCookies(lines(strings.NewReplacer("token", "refreshToken", "Token", "RefreshToken").Replace(test.lines)))
			if v, e := c.refreshToken.value(); v != value || e != err || c.Conflict() != conflict || !slices.Equal(c.refreshToken.values(), test.values) {
				t.Errorf("refreshToken: %q, %v, %v of %q", v, e, c.Conflict(), c.refreshToken.values())
			}
			if v, e := c.Token(); v != "" || e != nil {
				t.Errorf("token: %q, %v", v, e)
			}
		})
	}
}

// Whoever sends a thousand values gets no further than one who sends sixteen.
func TestReadCookiesKeepsFewValues(t *testing.T) {
	var pairs []string
	for i := range 1000 {
		pairs = append(pairs, fmt.Sprintf("refreshToken=%d", i))
	}
	c := ReadCookies(http.Header{"Cookie": {strings.Join(pairs, "; ")}})
	if values := c.refreshToken.values(); len(values) != maxValues || values[0] != "0" || values[maxValues-1] != fmt.Sprint(maxValues-1) {
		t.Errorf("%q", values)
	}
	if _, err := c.RefreshToken(); err != ErrInvalid {
		t.Error(err)
	}
}

// What cannot be a refresh token is none, beside one that can.
func TestRefreshTokensSent(t *testing.T) {
	token := NewRefreshToken()
	c := ReadCookies(lines("refreshToken=x; refreshToken=" + token.text + "; refreshToken=" + strings.ToUpper(token.text)))
	if tokens := c.RefreshTokens(); len(tokens) != 1 || tokens[0] != token.RefreshToken {
		t.Errorf("%v", tokens)
	}
	if _, err := c.RefreshToken(); err != ErrInvalid {
		t.Error(err)
	}
	if got, err := ReadCookies(lines("refreshToken=" + token.text)).RefreshToken(); got != token || err != nil {
		t.Error(got, err)
	}
	if _, err := ReadCookies(lines("refreshToken=x")).RefreshToken(); err != ErrInvalid {
		t.Error(err)
	}
}

// Every call of an operation reads the cookies.
func TestReadCookiesAllocatesNothing(t *testing.T) {
	h := http.Header{"Cookie": {"x=1; token=a; refreshToken=b; token=a"}}
	if n := testing.AllocsPerRun(100, func() {
		c := ReadCookies(h)
		if token, err := c.Token(); token != "a" || err != nil {
			t.Error(token, err)
		}
		if refreshToken, err := c.refreshToken.value(); refreshToken != "b" || err != nil {
			t.Error(refreshToken, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkReadCookies(b *testing.B) {
	h := http.Header{"Cookie": {"token=" + strings.Repeat("x", 400) + "; refreshToken=" + strings.Repeat("0", 128)}}
	b.ReportAllocs()
	for b.Loop() {
		c := ReadCookies(h)
		if token, err := c.Token(); len(token) != 400 || err != nil {
			b.Fatal(token, err)
		}
	}
}

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
			m.ClearCookies(h, Cookies{})
			want := []string{"other=1", "token=a" + test.set, "refreshToken=b" + test.set, "token=" + test.clear, "refreshToken=" + test.clear}
			if got := h["Set-Cookie"]; !slices.Equal(got, want) {
				t.Errorf("%q", got)
			}
		})
	}
}
