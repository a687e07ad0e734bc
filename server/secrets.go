package server

import (
	"context"
	"crypto/ed25519"
	"time"

	"worldevents/server/internal/oidc"
	"worldevents/server/internal/session"
)

// OIDC is an identity provider, and this service as its client.
type OIDC = oidc.Config

// CheckProvider returns the number of usable keys of an identity provider, and an error unless it publishes what a sign-in needs.
func CheckProvider(ctx context.Context, provider OIDC) (keys int, err error) {
	return oidc.New(provider, "", nil, time.Now).Check(ctx)
}

// SetKeys replaces Options.Keys for all later use. Requests with a verified JWT go on, watches among them.
func (s *Server) SetKeys(keys [][]byte) {
	s.sessions.SetSecrets(keys)
	s.lists.SetKey(keys[0])
	if s.provider != nil {
		s.provider.SetKeys(keys)
	}
}

// SetEd25519Keys is SetKeys for Options.PrivateKeys and PublicKeys.
func (s *Server) SetEd25519Keys(private []ed25519.PrivateKey, public []ed25519.PublicKey) {
	s.sessions.SetEd25519Keys(private, public)
}

// Signs returns the kid of the key that signs.
func (s *Server) Signs() string { return s.sessions.Signs() }

// KeyID returns the kid of a secret or of a public key.
func KeyID(key []byte) string { return session.KeyID(key) }

// SetClientSecret replaces the ClientSecret of Options.OIDC.
func (s *Server) SetClientSecret(secret string) {
	if s.provider != nil {
		s.provider.SetClientSecret(secret)
	}
}
