package servicetest

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"hash"
	"maps"
	"strings"
	"testing"
	"time"

	"worldevents/server"
)

// Claims of a JWT.
type Claims map[string]any

// Without returns the claims but one.
func (c Claims) Without(name string) Claims {
	c = maps.Clone(c)
	delete(c, name)
	return c
}

// And returns the claims and one more, or another value of it.
func (c Claims) And(name string, value any) Claims {
	c = maps.Clone(c)
	c[name] = value
	return c
}

// JSON is the claims as text.
func (c Claims) JSON() string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Claims are the least that makes a JWT valid for a user; it expires after ttl, which may be negative.
func (s *Service) Claims(userID string, ttl time.Duration) Claims {
	return Claims{"sub": userID, "exp": s.Clock.Now().Add(ttl).Unix()}
}

// JWT signs claims as the service would.
func (s *Service) JWT(c Claims) string { return Sign(Key, `{"alg":"HS256","typ":"JWT"}`, c.JSON()) }

// Expired is a JWT of the user whose only fault is its age.
func (s *Service) Expired(userID string) string { return s.JWT(s.Claims(userID, -time.Second)) }

// ExpiredSession is the JWT of a session, whose only fault is its age.
func (s *Service) ExpiredSession(of server.Session) string {
	claims := s.Claims(of.UserID, -time.Second)
	claims["sid"] = of.SessionID
	return s.JWT(claims)
}

// Sign makes a JWT of any header and claims, however odd their text, with HS256.
func Sign(key []byte, header, claims string) string { return SignWith(sha256.New, key, header, claims) }

// SignWith is Sign with any hash.
func SignWith(h func() hash.Hash, key []byte, header, claims string) string {
	signed := Base64(header) + "." + Base64(claims)
	return signed + "." + Base64(string(MAC(h, key, signed)))
}

// MAC authenticates text.
func MAC(h func() hash.Hash, key []byte, text string) []byte {
	mac := hmac.New(h, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// Base64 is base64url without padding.
func Base64(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// SHA512 is a hash for SignWith.
var SHA512 = sha512.New

// KeyID is the kid of a key: the first 16 hexadecimal digits of its SHA-256.
func KeyID(key []byte) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

// DecodeJWT reads header and claims of a JWT.
func DecodeJWT(t testing.TB, token string) (header, claims map[string]any) {
	t.Helper()
	parts := strings.Split(token, ".")
	for i, into := range []*map[string]any{&header, &claims} {
		text, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil || json.Unmarshal(text, into) != nil {
			t.Fatalf("part %d of %s", i, token)
		}
	}
	return header, claims
}

// NonCanonical changes the bits of the last character that decode to nothing.
func NonCanonical(token string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, token[len(token)-1])
	return token[:len(token)-1] + string(alphabet[last^1])
}
