package pages

import (
	"encoding/base64"
	"net/http"

	"github.com/labstack/echo/v4"

	"worldevents/server/internal/session"
)

// publicKey is a JWK (RFC 7517 section 4, RFC 8037 section 2).
type publicKey struct {
	KeyType   string `json:"kty"`
	Curve     string `json:"crv"`
	X         string `json:"x"`
	ID        string `json:"kid"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
}

// RegisterKeySet publishes the keys that verify JWTs. /.well-known/ belongs to a whole host (RFC 8615), so below a path it is /jwks.json.
func (p *Pages) RegisterKeySet(r Router) {
	path := "/.well-known/jwks.json"
	if p.Base != "" {
		path = "/jwks.json"
	}
	r.GetOrHead("keySet", path, func(c echo.Context) error {
		var set struct {
			Keys []publicKey `json:"keys"` // RFC 7517 section 5
		}
		for _, public := range p.Sessions.PublicKeys() {
			set.Keys = append(set.Keys, publicKey{"OKP", "Ed25519", base64.RawURLEncoding.EncodeToString(public), session.KeyID(public), "sig", "EdDSA"})
		}
		h := c.Response().Header()
		h.Set("Cache-Control", "public, max-age=300")
		h.Set("Access-Control-Allow-Origin", "*") // it has no data of users
		h.Del("Vary")
		return c.JSON(http.StatusOK, set)
	})
}
