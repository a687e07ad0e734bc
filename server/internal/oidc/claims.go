package oidc

import (
	"errors"
	"slices"
	"strings"
	"time"

	goidc "github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/golang-jwt/jwt/v5"
)

// claims are the members of an ID token or of UserInfo, each read only when it is asked for. Names are case-sensitive and do not
// repeat (RFC 7519 section 4): go-oidc takes Sub for sub, and the last of several, where a provider lets people name claims.
type claims map[string]jsontext.Value

// readClaims returns what unmarshal, of go-oidc, has.
func readClaims(unmarshal func(any) error) (c claims, err error) {
	var text raw
	if err := unmarshal(&text); err != nil {
		return nil, err
	}
	return c, json.Unmarshal(text, &c, jsontext.AllowInvalidUTF8(true)) // which may be in a claim that nobody needs
}

// raw takes JSON as it is.
type raw []byte

// UnmarshalJSON is for encoding/json, which go-oidc calls.
func (r *raw) UnmarshalJSON(b []byte) error {
	*r = slices.Clone(b)
	return nil
}

// text returns a claim that is a string of Unicode characters, else "".
func (c claims) text(name string) string {
	var text string
	if json.Unmarshal(c[name], &text) != nil {
		return ""
	}
	return text
}

// check returns an error unless the claims of an ID token are issued by issuer to client for this flow, and are current (OpenID
// Connect Core 1.0 section 3.1.3.7). It returns ErrFlow for those of another flow.
func (c claims) check(issuer, client, nonce string, now time.Time) error {
	var audience jwt.ClaimStrings
	var expiry float64
	switch party, named := c["azp"]; {
	case c.text("iss") != issuer:
		return errors.New("issued by another provider")
	case json.Unmarshal(c["aud"], &audience) != nil || !slices.Contains(audience, client):
		return errors.New("issued to another client")
	// One with several audiences, us among them, may be another client's.
	case named && (len(party) == 0 || c.text("azp") != client), !named && len(audience) > 1:
		return errors.New("authorized party is another client")
	case json.Unmarshal(c["exp"], &expiry) != nil || !(float64(now.Unix()) < expiry):
		return errors.New("expired")
	case c.text("nonce") != nonce: // somebody else's code was injected (RFC 9700 section 4.5.3.2)
		return ErrFlow
	case !validSubject(c.text("sub")):
		return errors.New("sub is not 1 to 255 ASCII characters")
	}
	return nil
}

// issuerOf returns the issuer that go-oidc has let pass, which for Google alone may lack its scheme.
func issuerOf(token *goidc.IDToken, issuer string) string {
	if issuer == "https://accounts.google.com" && token.Issuer == "accounts.google.com" {
		return token.Issuer
	}
	return issuer
}

// validSubject reports whether OpenID Connect Core 1.0 section 2 allows sub. Control characters are refused as well.
func validSubject(sub string) bool {
	return sub != "" && len(sub) <= 255 && !strings.ContainsFunc(sub, func(r rune) bool { return r < ' ' || r > '~' })
}
