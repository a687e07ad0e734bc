package session

import (
	"math"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/golang-jwt/jwt/v5"

	"worldevents/models"
)

// claims of a JWT (RFC 7519 section 4.1). Names are case-sensitive and must not repeat.
type claims struct {
	Subject   string           `json:"sub"`
	SessionID string           `json:"sid,omitzero"`
	Username  string           `json:"username,omitzero"`
	Issuer    string           `json:"iss,omitzero"`
	Audience  jwt.ClaimStrings `json:"aud,omitzero"`
	IssuedAt  *numericDate     `json:"iat,omitzero"`
	NotBefore *numericDate     `json:"nbf,omitzero"`
	ExpiresAt *numericDate     `json:"exp"`
	ID        string           `json:"jti,omitzero"`

	// The parser requires these getters and calls none: check reads the fields.
	jwt.Claims `json:"-"`
}

// UnmarshalJSON reads strictly: encoding/json matches names in any case and takes the last of several.
func (c *claims) UnmarshalJSON(b []byte) error {
	type plain claims
	return json.Unmarshal(b, (*plain)(c))
}

// check returns ErrInvalid, or ErrExpired if age is the only fault.
func (c *claims) check(now time.Time, issuer, audience string) error {
	latest := now.Add(models.ClockSkew) // by the clock of another issuer or instance
	switch {
	case c.Subject == "", c.ExpiresAt == nil,
		!c.ExpiresAt.inRange(), !c.IssuedAt.inRange(), !c.NotBefore.inRange(),
		c.IssuedAt.after(latest), c.NotBefore.after(latest),
		issuer != "" && c.Issuer != issuer,
		audience != "" && !slices.Contains(c.Audience, audience):
		return ErrInvalid
	case !now.Before(c.ExpiresAt.time()):
		return ErrExpired
	}
	return nil
}

func (c *claims) session(token, refreshToken string) Session {
	return Session{c.Subject, c.SessionID, c.Username, token, refreshToken, c.ExpiresAt.time(), time.Time{}}
}

// numericDate is seconds since 1970 (RFC 7519 section 2). It must be a JSON number: golang-jwt's own type accepts strings.
type numericDate float64

// maxNumericDate is the last second of the year 9999.
const maxNumericDate = 253402300799

func newNumericDate(t time.Time) *numericDate {
	d := numericDate(t.Unix())
	return &d
}

func (d *numericDate) time() time.Time {
	seconds, fraction := math.Modf(float64(*d))
	return time.Unix(int64(seconds), int64(fraction*1e9)).UTC()
}

// inRange reports whether d is absent or in the years 1970 to 9999, the range of Session-Expires.
func (d *numericDate) inRange() bool { return d == nil || *d >= 0 && *d <= maxNumericDate }

func (d *numericDate) after(t time.Time) bool { return d != nil && d.time().After(t) }
