package server

import "worldevents/server/internal/session"

// SetKeys replaces Options.Keys, for all that is signed, verified and derived afterwards. Requests that have been verified
// already go on, those among them that wait for news of a list.
func (s *Server) SetKeys(keys [][]byte) {
	s.sessions.SetKeys(keys)
	s.lists.SetKey(keys[0])
	if s.provider != nil {
		s.provider.SetKeys(keys)
	}
}

// KeyID returns the kid by which JWTs name a key.
func KeyID(key []byte) string { return session.KeyID(key) }

// SetClientSecret replaces the ClientSecret of Options.OIDC.
func (s *Server) SetClientSecret(secret string) {
	if s.provider != nil {
		s.provider.SetClientSecret(secret)
	}
}
