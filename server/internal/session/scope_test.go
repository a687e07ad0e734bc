package session

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestCookieDomains(t *testing.T) {
	for _, test := range []struct {
		host, configured string
		want             []string
	}{
		{"example.org", "", []string{"", "example.org"}},
		{"api.example.org", "", []string{"", "example.org", "api.example.org"}},
		{"API.Example.ORG", "", []string{"", "example.org", "api.example.org"}},
		{"v1.api.example.org", "", []string{"", "example.org", "api.example.org", "v1.api.example.org"}},
		{"a.b.c.d.example.org", "", []string{"", "example.org", "b.c.d.example.org", "a.b.c.d.example.org"}},
		{"a.b.c.d.example.org", "d.example.org", []string{"", "d.example.org", "example.org", "b.c.d.example.org", "a.b.c.d.example.org"}},
		{"api.example.org", "example.org", []string{"", "example.org", "api.example.org"}},
		{"shop.example.co.uk", "", []string{"", "example.co.uk", "shop.example.co.uk"}},
		{"service.corp.internal", "", []string{"", "corp.internal", "service.corp.internal"}},

		// Public suffixes, of registries and of companies, and what is configured in vain.
		{"org", "", []string{""}},
		{"co.uk", "", []string{""}},
		{"localhost", "", []string{""}},
		{"localhost", "localhost", []string{""}},
		{"github.io", "", []string{""}},
		{"me.github.io", "", []string{"", "me.github.io"}},
		{"me.github.io", "github.io", []string{"", "me.github.io"}},
		{"example.org", "org", []string{"", "example.org"}},
		{"example.org", "elsewhere.example", []string{"", "example.org"}},
		{"example.org", "ample.org", []string{"", "example.org"}},

		{"127.0.0.1", "", []string{""}},
		{"127.0.0.1", "0.0.1", []string{""}},
		{"::1", "", []string{""}},
		{"example.org.", "", []string{""}},
		{"", "", []string{""}},
	} {
		t.Run(test.host+" "+test.configured, func(t *testing.T) {
			if got := cookieDomains(test.host, test.configured); !slices.Equal(got, test.want) {
				t.Errorf("%q", got)
			}
		})
	}
}

// The cookies of other scopes are bounded in bytes, and none is for a host that is no cookie's domain.
func TestStaleAttributes(t *testing.T) {
	const end = "; Max-Age=0; HttpOnly; Secure; SameSite=None"
	path := "/" + strings.Repeat("x", 650)
	for _, test := range []struct {
		options Options
		want    []string
	}{
		{Options{Host: "example.org", CookiePath: path}, []string{"; Path=" + path + "; Domain=example.org" + end}},
		{Options{Host: strings.Repeat("x", 120) + ".example.org", CookiePath: "/"}, []string{
			"; Path=/; Domain=example.org" + end, "; Path=/" + end + "; Partitioned", "; Path=/; Domain=example.org" + end + "; Partitioned",
		}},
	} {
		if got := staleAttributes(test.options); !slices.Equal(got, test.want) {
			t.Errorf("%q", got)
		}
	}
}

// Only a conflict makes more than two cookies. The live ones come last, and none of the others is of their scope.
func TestHealing(t *testing.T) {
	conflict := ReadCookies(lines("token=a; refreshToken=b; refreshToken=c"))
	for _, test := range []struct {
		name string
		sent Cookies
		more bool
	}{
		{"no cookie", Cookies{}, false},
		{"one of each", ReadCookies(lines("token=a; refreshToken=b")), false},
		{"the same twice", ReadCookies(lines("token=a; token=a")), false},
		{"two tokens", ReadCookies(lines("token=a; token=b")), true},
		{"two refresh tokens", conflict, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newTestManager(func(o *Options) { o.Host, o.CookiePath = "api.example.org", "/app" })
			for _, response := range []struct {
				write func(http.Header)
				live  []string
			}{
				{func(h http.Header) { m.ReplaceCookies(h, test.sent, Session{Token: "x", RefreshToken: "y"}) }, []string{"token=x" + m.setAttributes, "refreshToken=y" + m.setAttributes}},
				{func(h http.Header) { m.ClearCookies(h, test.sent) }, []string{"token=" + m.clearAttributes, "refreshToken=" + m.clearAttributes}},
			} {
				var want []string
				if test.more {
					for _, stale := range m.staleAttributes {
						want = append(want, "token="+stale, "refreshToken="+stale)
					}
				}
				h := make(http.Header)
				response.write(h)
				if got := h["Set-Cookie"]; !slices.Equal(got, append(want, response.live...)) {
					t.Errorf("%q", got)
				}
				if slices.Contains(m.staleAttributes, m.clearAttributes) {
					t.Error("the live scope is stale")
				}
			}
		})
	}
}
