package session

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"worldevents/models"
)

// The names of the two cookies.
const (
	tokenCookie   = "token"
	refreshCookie = "refreshToken"
)

// maxCookie bounds a cookie's name and value together, in bytes (RFC 6265bis section 5.6).
const maxCookie = 4096

// Cookies are the values that a request sends for the two cookies, byte for byte. net/http would drop quotes, and whole
// cookies whose value it finds odd, but an odd token must be an invalid one.
//
// A browser may hold several cookies of one name. Which one it sends first depends on paths and age (RFC 6265bis
// section 5.8.3), so none is believed when their values differ.
type Cookies struct{ token, refreshToken cookie }

// ReadCookies reads the header Cookie of a request, all lines of it.
func ReadCookies(h http.Header) (c Cookies) {
	for _, line := range h["Cookie"] {
		for len(line) > 0 {
			var pair string
			pair, line, _ = strings.Cut(line, ";")
			name, value, ok := strings.Cut(strings.Trim(pair, " \t"), "=")
			if !ok {
				continue
			}
			switch name {
			case tokenCookie:
				c.token.add(value)
			case refreshCookie:
				c.refreshToken.add(value)
			}
		}
	}
	return c
}

// Token returns the value of the cookie token, or "" if there is none. It returns ErrInvalid if values differ.
func (c Cookies) Token() (string, error) { return c.token.value() }

// RefreshToken returns the value of the cookie refreshToken. It returns ErrNoToken if there is none, and ErrInvalid if
// values differ or cannot be a refresh token.
func (c Cookies) RefreshToken() (RefreshToken, error) {
	text, err := c.refreshToken.value()
	if err == nil && text == "" {
		return RefreshToken{}, ErrNoToken
	}
	if token, ok := parseRefreshToken(text); ok {
		return token, nil
	}
	return RefreshToken{}, ErrInvalid
}

// Tokens returns the distinct values of the cookie token in the order they were sent in, maxValues at most.
func (c Cookies) Tokens() []string { return c.token.values() }

// RefreshTokens returns the distinct refresh tokens in the order they were sent in, maxValues at most.
func (c Cookies) RefreshTokens() (tokens []models.RefreshToken) {
	for _, text := range c.refreshToken.values() {
		if token, ok := parseRefreshToken(text); ok {
			tokens = append(tokens, token.RefreshToken)
		}
	}
	return tokens
}

// Conflict reports whether one of the two cookies was sent with different values.
func (c Cookies) Conflict() bool { return len(c.token.others)+len(c.refreshToken.others) > 0 }

// maxValues bounds the distinct values that are kept of one cookie. More scopes than that can hardly apply to one URL,
// and whoever sends thousands of values must not cause thousands of statements.
const maxValues = 16

// cookie holds the distinct values of one name. Only a request whose values differ costs an allocation.
type cookie struct {
	sent   bool
	first  string
	others []string
}

func (c *cookie) add(value string) {
	switch {
	case !c.sent:
		c.sent, c.first = true, value
	case value != c.first && len(c.others) < maxValues-1 && !slices.Contains(c.others, value):
		c.others = append(c.others, value)
	}
}

func (c *cookie) value() (string, error) {
	if len(c.others) > 0 {
		return "", ErrInvalid
	}
	return c.first, nil
}

func (c *cookie) values() []string {
	if !c.sent {
		return nil
	}
	return append([]string{c.first}, c.others...)
}

// SetCookies adds both cookies to the response of a refresh. They live as long as the refresh token, and no longer than the
// session.
func (m *Manager) SetCookies(h http.Header, s Session) {
	set := m.setAttributes
	if left := s.ends.Sub(m.options.Now()); !s.ends.IsZero() && left < m.options.RefreshTTL {
		set = attributes(m.cookie(max(1, int(left/time.Second))))
	}
	addCookies(h, s.Token, s.RefreshToken, set)
}

// ReplaceCookies adds both cookies to the response of a sign-in. If the request's cookies conflict, it first expires
// those that an earlier configuration of this service can have left: together with them the new ones would be invalid.
func (m *Manager) ReplaceCookies(h http.Header, sent Cookies, s Session) {
	m.healCookies(h, sent)
	m.SetCookies(h, s)
}

// ClearCookies expires both cookies, with the attributes they were set with. If the request's cookies conflict, it also
// expires those that an earlier configuration of this service can have left.
func (m *Manager) ClearCookies(h http.Header, sent Cookies) {
	m.healCookies(h, sent)
	addCookies(h, "", "", m.clearAttributes)
}

// healCookies expires both cookies in the stale scopes. The caller sets the live ones afterwards: a browser obeys the
// lines of a response in order, so a line of a scope that it takes for the live one does no harm.
func (m *Manager) healCookies(h http.Header, sent Cookies) {
	if sent.Conflict() {
		for _, attributes := range m.staleAttributes {
			addCookies(h, "", "", attributes)
		}
	}
}

// addCookies is the only place where the session's cookies are made, for every way to sign in, refresh and sign out.
func addCookies(h http.Header, token, refreshToken, attributes string) {
	h["Set-Cookie"] = append(h["Set-Cookie"], tokenCookie+"="+token+attributes, refreshCookie+"="+refreshToken+attributes)
}
