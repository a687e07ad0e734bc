package session

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"worldevents/models"
)

// RefreshToken is 64 random bytes in hexadecimal, with their hashes for the store. The first 16 bytes are the handle of the session, by
// which every spent token of it is known. The others change with each refresh.
type RefreshToken struct {
	models.RefreshToken
	text string
}

// In characters.
const (
	refreshChars = 128
	handleChars  = 32
)

// NewRefreshToken returns the first refresh token of a session.
func NewRefreshToken() RefreshToken { return newRefreshToken(randomHex(handleChars)) }

// Next returns the successor of t.
func (t RefreshToken) Next() RefreshToken { return newRefreshToken(t.text[:handleChars]) }

// String keeps the token out of whatever prints it.
func (RefreshToken) String() string { return "refresh token" }

func newRefreshToken(handle string) RefreshToken {
	t, _ := parseRefreshToken(handle + randomHex(refreshChars-handleChars))
	return t
}

func randomHex(chars int) string {
	random := make([]byte, chars/2)
	rand.Read(random) // never fails: without randomness the process ends
	return hex.EncodeToString(random)
}

// parseRefreshToken returns false for texts that are no refresh token: only one spelling of the bytes counts.
func parseRefreshToken(text string) (RefreshToken, bool) {
	if len(text) != refreshChars || strings.Trim(text, "0123456789abcdef") != "" {
		return RefreshToken{}, false
	}
	return RefreshToken{models.RefreshToken{
		Handle: sha256.Sum256([]byte(text[:handleChars])),
		Token:  sha256.Sum256([]byte(text)),
	}, text}, true
}
