package pages

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

// contactTTL is the validity of security.txt.
const contactTTL = 90 * 24 * time.Hour

// RegisterSecurityTxt serves the contacts for vulnerabilities (RFC 9116), in this order. It is for a whole host, not a path.
func (p *Pages) RegisterSecurityTxt(r Router, contacts []string) {
	if len(contacts) == 0 || p.Base != "" {
		return
	}
	const path = "/.well-known/security.txt"
	r.GetOrHead("securityTxt", path, func(c echo.Context) error {
		var text strings.Builder
		for _, contact := range contacts {
			fmt.Fprintf(&text, "Contact: %s\n", contact)
		}
		fmt.Fprintf(&text, "Expires: %s\nCanonical: %s%s\n", p.Now().Add(contactTTL).UTC().Format(time.RFC3339), p.BaseURL, path)
		c.Response().Header().Set("Cache-Control", "public, max-age=3600")
		c.Response().Header().Del("Vary")
		return c.Blob(http.StatusOK, "text/plain; charset=utf-8", []byte(text.String()))
	})
}
