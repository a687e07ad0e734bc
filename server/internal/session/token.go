package session

import (
	"crypto/sha256"
	"errors"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"worldevents/models"
	"worldevents/server/internal/apart"
)

// Issue signs a JWT for an accepted refresh token. It expires after Options.TokenTTL, or with the session.
func (m *Manager) Issue(grant models.Grant, refreshToken RefreshToken) Session {
	now := m.options.Now().UTC().Truncate(time.Second)
	expires := now.Add(m.options.TokenTTL)
	if !grant.Ends.IsZero() && grant.Ends.Before(expires) {
		expires = grant.Ends
	}
	c := claims{
		Subject: grant.ID.String(), SessionID: grant.SessionID.String(), Username: grant.Username, Issuer: m.options.Issuer,
		ID: uuid.NewString(), IssuedAt: newNumericDate(now), ExpiresAt: newNumericDate(expires),
	}
	if m.options.Audience != "" {
		c.Audience = jwt.ClaimStrings{m.options.Audience}
	}
	issued := c.session(m.keyring.Load().keys[0].sign(c), refreshToken.text)
	issued.ends = grant.Ends
	return issued
}

func (k key) sign(c claims) string {
	token := jwt.NewWithClaims(k.algorithm, c)
	token.Header["kid"] = k.id
	text, err := token.SignedString(k.signs)
	if err != nil { // cannot be: the claims are strings and whole numbers, and the key is of the algorithm's
		panic(err)
	}
	return text
}

// Verify checks a JWT as RFC 7519 section 7.2 and RFC 8725 demand. It returns ErrNoToken, ErrInvalid, or ErrExpired with the session.
func (m *Manager) Verify(token string) (Session, error) {
	if token == "" {
		return Session{}, ErrNoToken
	}
	if len(tokenCookie)+len(token) > maxCookie {
		return Session{}, ErrInvalid
	}
	c, err := m.keyring.Load().parseCached(token)
	if err != nil {
		return Session{}, ErrInvalid
	}
	switch err := c.check(m.options.Now(), m.options.Issuer, m.options.Audience); err {
	case nil, ErrExpired:
		return c.session(token, ""), err
	default:
		return Session{}, err
	}
}

// VerifyCookies is Verify for the cookie token.
func (m *Manager) VerifyCookies(sent Cookies) (Session, error) {
	token, err := sent.Token()
	if err != nil {
		return Session{}, err
	}
	return m.Verify(token)
}

// parseCached is parse, but verifies a signature once: a browser sends the same JWT for a quarter of an hour.
func (r *keyring) parseCached(token string) (claims, error) {
	var buf [512]byte // our tokens fit on the stack
	digest := sha256.Sum256(append(buf[:0], token...))
	if c, ok := r.verified.Get(digest); ok {
		return c, nil
	}
	var c claims
	err := apart.Run(func() (err error) {
		c, err = r.parse(token)
		return err
	})
	if err == nil {
		r.verified.Add(digest, c)
	}
	return c, err
}

// parse returns the claims of a JWT with a valid form and signature.
func (r *keyring) parse(token string) (c claims, err error) {
	_, err = parser.ParseWithClaims(token, &c, r.keysFor)
	return c, err
}

// parser leaves the claims to Verify, which distinguishes age from other faults.
var parser = jwt.NewParser(jwt.WithValidMethods([]string{"HS256", "EdDSA"}), jwt.WithStrictDecoding(), jwt.WithoutClaimsValidation())

var errKey = errors.New("no key for this header")

// keysFor returns the keys to try, only from this keyring: a kid must be one of ours, and keys in the header are ignored. alg must be that
// of the key. Without a kid, as from other services, only secrets are tried. crit is refused (RFC 7515 section 4.1.11).
func (r *keyring) keysFor(t *jwt.Token) (any, error) {
	if _, ok := t.Header["crit"]; ok {
		return nil, errKey
	}
	id, named := t.Header["kid"]
	var set jwt.VerificationKeySet
	for _, k := range r.keys {
		if k.algorithm == t.Method && (id == k.id || !named && k.algorithm == jwt.SigningMethodHS256) {
			set.Keys = append(set.Keys, k.verifies)
		}
	}
	if len(set.Keys) == 0 {
		return nil, errKey
	}
	return set, nil
}
