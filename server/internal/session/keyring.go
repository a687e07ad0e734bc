package session

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"

	lru "github.com/hashicorp/golang-lru/v2"
)

// keyring is the keys of one time, with the JWTs that they have verified. Both are replaced as one: nothing that a former key
// has verified is believed under the present ones.
type keyring struct {
	keys     []key
	verified *lru.Cache[[sha256.Size]byte, claims] // by the digest of the token
}

// maxVerified is how many JWTs are remembered: 8 MB of usual ones.
const maxVerified = 1 << 14

type key struct {
	id     string
	secret []byte
	header string // the first part of a JWT that is signed with the key
}

// SetKeys replaces the keys, of which there must be one at least: the first signs, all verify. JWTs of keys that are no longer
// among them are invalid for every Verify that begins afterwards.
func (m *Manager) SetKeys(secrets [][]byte) {
	ring := new(keyring)
	ring.verified, _ = lru.New[[sha256.Size]byte, claims](maxVerified) // fails only for a size below 1
	for _, secret := range secrets {
		id := KeyID(secret)
		header := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","kid":"` + id + `","typ":"JWT"}`))
		ring.keys = append(ring.keys, key{id, secret, header})
	}
	m.keyring.Store(ring)
}

// KeyID returns the kid of a key (RFC 7515 section 4.1.4), which every JWT shows.
func KeyID(secret []byte) string {
	sum := sha256.Sum256(secret)
	return hex.EncodeToString(sum[:8])
}
