package session

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"

	"github.com/golang-jwt/jwt/v5"
	lru "github.com/hashicorp/golang-lru/v2"
)

// keyring has keys and the JWTs that they verified, which are replaced together: no JWT of a former key stays valid.
type keyring struct {
	keys     []key                                 // the first signs
	verified *lru.Cache[[sha256.Size]byte, claims] // by the digest of the token
}

// maxVerified bounds the remembered JWTs: usual ones take 8 MB.
const maxVerified = 1 << 14

// key signs and verifies by one algorithm, which no JWT can change (RFC 8725 section 3.1).
type key struct {
	id              string // of the public part, or of the secret
	algorithm       jwt.SigningMethod
	signs, verifies any // as algorithm takes them
}

// SetSecrets replaces the keys for HS256, at least one. The first signs unless there are private keys; all verify. JWTs of removed keys are
// invalid for later calls of Verify.
func (m *Manager) SetSecrets(secrets [][]byte) {
	m.setting.Lock()
	defer m.setting.Unlock()
	m.options.Secrets = secrets
	m.renewKeyring()
}

// SetEd25519Keys is SetSecrets for the keys for EdDSA (RFC 8037). The first private one signs.
func (m *Manager) SetEd25519Keys(private []ed25519.PrivateKey, public []ed25519.PublicKey) {
	m.setting.Lock()
	defer m.setting.Unlock()
	m.options.PrivateKeys, m.options.PublicKeys = private, public
	m.renewKeyring()
}

// renewKeyring makes a keyring of the present keys, under the lock of setting.
func (m *Manager) renewKeyring() {
	ring := new(keyring)
	ring.verified, _ = lru.New[[sha256.Size]byte, claims](maxVerified) // fails only for a size below 1
	for _, private := range m.options.PrivateKeys {
		public := private.Public().(ed25519.PublicKey)
		ring.keys = append(ring.keys, key{KeyID(public), jwt.SigningMethodEdDSA, private, public})
	}
	for _, secret := range m.options.Secrets {
		ring.keys = append(ring.keys, key{KeyID(secret), jwt.SigningMethodHS256, secret, secret})
	}
	for _, public := range m.options.PublicKeys { // behind a secret, so that none of them is the first
		ring.keys = append(ring.keys, key{KeyID(public), jwt.SigningMethodEdDSA, nil, public})
	}
	m.keyring.Store(ring)
}

// KeyID returns the kid (RFC 7515 section 4.1.4) of a secret, or of the raw bytes of a public key.
func KeyID(key []byte) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

// Signs returns the kid of the key that signs.
func (m *Manager) Signs() string { return m.keyring.Load().keys[0].id }

// PublicKeys returns the public halves of the private keys, then the public keys.
func (m *Manager) PublicKeys() (public []ed25519.PublicKey) {
	for _, k := range m.keyring.Load().keys {
		if key, ok := k.verifies.(ed25519.PublicKey); ok {
			public = append(public, key)
		}
	}
	return public
}
