package server

import (
	"context"
	"crypto/ed25519"
	"time"

	"worldevents/server/internal/oidc"
	"worldevents/server/internal/session"
)

// OIDC is an identity provider to sign in with, and this service as its client.
type OIDC = oidc.Config

// CheckProvider returns an error unless an identity provider publishes what a sign-in needs.
func CheckProvider(ctx context.Context, provider OIDC) error {
	return oidc.New(provider, "", nil, time.Now).Check(ctx)
}

// SetKeys replaces Options.Keys, for all that is signed, verified and derived afterwards. Requests whose JWT has been verified go on,
// watches among them.
func (s *Server) SetKeys(keys [][]byte) {
	s.sessions.SetSecrets(keys)
	s.lists.SetKey(keys[0])
	if s.provider != nil {
		s.provider.SetKeys(keys)
	}
}

// SetPrivateKeys is SetKeys for Options.PrivateKeys.
func (s *Server) SetPrivateKeys(keys []ed25519.PrivateKey) { s.sessions.SetPrivateKeys(keys) }

// KeyID returns the kid by which JWTs name a key, or the private key of a public one.
func KeyID(key []byte) string { return session.KeyID(key) }

// SetClientSecret replaces the ClientSecret of Options.OIDC.
func (s *Server) SetClientSecret(secret string) {
	if s.provider != nil {
		s.provider.SetClientSecret(secret)
	}
}
