package pages

import (
	"crypto/ed25519"
	"encoding/base64"
	"net/http"

	"github.com/labstack/echo/v4"

	"worldevents/server/internal/session"
)

// publicKey is a key that verifies JWTs, as a JWK (RFC 7517 section 4, RFC 8037 section 2).
type publicKey struct {
	KeyType   string `json:"kty"`
	Curve     string `json:"crv"`
	X         string `json:"x"`
	ID        string `json:"kid"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
}

// keySet is a JWK Set (RFC 7517 section 5).
type keySet struct {
	Keys []publicKey `json:"keys"`
}

// RegisterKeySet publishes the keys with which other services verify JWTs. A path under /.well-known/ belongs to a whole host (RFC
// 8615), so where the public address has a path it is /jwks.json below that.
func (p *Pages) RegisterKeySet(r Router) {
	path := "/.well-known/jwks.json"
	if p.Base != "" {
		path = "/jwks.json"
	}
	r.GetOrHead("keySet", path, func(c echo.Context) error {
		var set keySet
		for _, public := range p.Sessions.PublicKeys() {
			set.Keys = append(set.Keys, jwk(public))
		}
		h := c.Response().Header()
		h.Set("Cache-Control", "public, max-age=300")
		h.Set("Access-Control-Allow-Origin", "*") // it holds nothing of anybody
		h.Del("Vary")
		return c.JSON(http.StatusOK, set)
	})
}

func jwk(public ed25519.PublicKey) publicKey {
	return publicKey{"OKP", "Ed25519", base64.RawURLEncoding.EncodeToString(public), session.KeyID(public), "sig", "EdDSA"}
}
