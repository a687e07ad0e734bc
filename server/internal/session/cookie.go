package session

import (
	"errors"
	"net/http"
	"strings"
)

// The names of the two cookies.
const (
	TokenCookie   = "token"
	RefreshCookie = "refreshToken"
)

// maxCookie bounds a cookie's name and value together, in bytes (RFC 6265bis section 5.6).
const maxCookie = 4096

// ErrCookies is returned by Cookie when several cookies of one name disagree. Which one a browser sends first depends
// on paths and age (RFC 6265bis section 5.8.3), so none is believed.
var ErrCookies = errors.New("cookies of one name with different values")

// Cookie returns the value of a request's cookie byte for byte, or "" if there is none. It returns ErrCookies. net/http
// would drop quotes, and whole cookies whose value it finds odd, but an odd token must be an invalid one.
func Cookie(h http.Header, name string) (value string, err error) {
	found := false
	for _, line := range h["Cookie"] {
		for len(line) > 0 {
			var pair string
			pair, line, _ = strings.Cut(line, ";")
			n, v, ok := strings.Cut(strings.Trim(pair, " \t"), "=")
			if !ok || n != name {
				continue
			}
			if found && v != value {
				return "", ErrCookies
			}
			value, found = v, true
		}
	}
	return value, nil
}

// SetCookies adds both cookies to a response.
func (m *Manager) SetCookies(h http.Header, s Session) {
	addCookies(h, s.Token, s.RefreshToken, m.setAttributes)
}

// ClearCookies expires both cookies, with the attributes they were set with.
func (m *Manager) ClearCookies(h http.Header) {
	addCookies(h, "", "", m.clearAttributes)
}

// addCookies is the only place where the session's cookies are made, for every way to sign in, refresh and sign out.
func addCookies(h http.Header, token, refreshToken, attributes string) {
	h["Set-Cookie"] = append(h["Set-Cookie"], TokenCookie+"="+token+attributes, RefreshCookie+"="+refreshToken+attributes)
}

// cookieAttributes returns what follows the value of either cookie. It is made once: a refresh is a hot path.
func cookieAttributes(o Options, maxAge int) string {
	cookie := http.Cookie{
		Name:        TokenCookie,
		Path:        o.CookiePath,
		Domain:      o.CookieDomain,
		MaxAge:      maxAge,
		HttpOnly:    true,
		Secure:      !o.Development,
		SameSite:    http.SameSiteNoneMode,
		Partitioned: o.CookiePartitioned,
	}
	if o.Development {
		cookie.SameSite = http.SameSiteLaxMode
	}
	return strings.TrimPrefix(cookie.String(), TokenCookie+"=")
}
