package session

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"worldevents/models"
)

const (
	tokenCookie   = "token"
	refreshCookie = "refreshToken"
)

// maxCookie bounds a cookie's name and value together, in bytes (RFC 6265bis section 5.6).
const maxCookie = 4096

// Cookies are the values of the two cookies in a request, byte for byte: net/http would drop quotes and odd cookies, but an odd token must
// be invalid. A browser may send several cookies of one name, in an order that depends on paths and age (RFC 6265bis section 5.8.3), so
// different values are all invalid.
type Cookies struct{ token, refreshToken cookie }

// ReadCookies reads all Cookie lines of a request.
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

// Token returns the cookie token, or "". It returns ErrInvalid for different values.
func (c Cookies) Token() (string, error) { return c.token.value() }

// RefreshToken returns the cookie refreshToken. It returns ErrNoToken, and ErrInvalid for different or malformed values.
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

// Tokens returns the distinct values of the cookie token in order, maxValues at most.
func (c Cookies) Tokens() []string { return c.token.values() }

// RefreshTokens returns the distinct refresh tokens in order, maxValues at most.
func (c Cookies) RefreshTokens() (tokens []models.RefreshToken) {
	for _, text := range c.refreshToken.values() {
		if token, ok := parseRefreshToken(text); ok {
			tokens = append(tokens, token.RefreshToken)
		}
	}
	return tokens
}

// Conflict reports different values of one cookie.
func (c Cookies) Conflict() bool { return len(c.token.others)+len(c.refreshToken.others) > 0 }

// maxValues bounds the distinct values of a cookie. A URL hardly has more scopes, and each value costs a statement.
const maxValues = 16

// cookie has the distinct values of one name. It allocates only if values differ.
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

// SetCookies adds both cookies to the response of a refresh. They live as long as the refresh token, and no longer than the session.
func (m *Manager) SetCookies(h http.Header, s Session) {
	set := m.setAttributes
	if left := s.ends.Sub(m.options.Now()); !s.ends.IsZero() && left < m.options.RefreshTTL {
		set = attributes(m.cookie(max(1, int(left/time.Second))))
	}
	addCookies(h, s.Token, s.RefreshToken, set)
}

// ReplaceCookies adds both cookies to the response of a sign-in. If those of the request conflict, it first expires the stale ones: with
// them the new ones would be invalid.
func (m *Manager) ReplaceCookies(h http.Header, sent Cookies, s Session) {
	m.healCookies(h, sent)
	m.SetCookies(h, s)
}

// ClearCookies expires both cookies, and the stale ones if those of the request conflict.
func (m *Manager) ClearCookies(h http.Header, sent Cookies) {
	m.healCookies(h, sent)
	addCookies(h, "", "", m.clearAttributes)
}

// healCookies expires both cookies in stale scopes, before the live ones are set: browsers obey the lines in order.
func (m *Manager) healCookies(h http.Header, sent Cookies) {
	if sent.Conflict() {
		for _, attributes := range m.staleAttributes {
			addCookies(h, "", "", attributes)
		}
	}
}

// addCookies makes all cookies of the session.
func addCookies(h http.Header, token, refreshToken, attributes string) {
	h["Set-Cookie"] = append(h["Set-Cookie"], tokenCookie+"="+token+attributes, refreshCookie+"="+refreshToken+attributes)
}
