package oidc

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/golang-jwt/jwt/v5"
)

// claims are the members of a JSON object of the provider: a token, UserInfo, a key, or metadata. Each is parsed on use, so unused ones may
// be anything. Names are case-sensitive.
type claims map[string]jsontext.Value

// parseClaims uses the last of repeated members if repeated says so. Tokens must not have them (RFC 7519 section 4).
func parseClaims(text []byte, repeated bool) (c claims, err error) {
	if err := json.Unmarshal(text, &c, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(repeated)); err != nil {
		return nil, err
	}
	return c, nil
}

// text returns a member that is a Unicode string, else "".
func (c claims) text(name string) string {
	var text string
	if json.Unmarshal(c[name], &text) != nil {
		return ""
	}
	return text
}

// texts returns the strings of an array.
func (c claims) texts(name string) (texts []string) {
	var all []any
	if json.Unmarshal(c[name], &all) != nil {
		return nil
	}
	for _, each := range all {
		if text, ok := each.(string); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

// time returns a NumericDate (RFC 7519 section 2) to the second, else the zero Time.
func (c claims) time(name string) time.Time {
	var seconds float64
	if json.Unmarshal(c[name], &seconds) != nil || !(seconds > 0 && seconds < 1<<53) {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0)
}

// checkParties returns an error unless issuer issued the claims to client. Google's issuer may lack its scheme.
func (c claims) checkParties(issuer, client string) error {
	var audience jwt.ClaimStrings
	switch got := c.text("iss"); {
	case got != issuer && (got != "accounts.google.com" || issuer != "https://"+got):
		return fmt.Errorf("iss is %s", c["iss"])
	case json.Unmarshal(c["aud"], &audience) != nil || !slices.Contains(audience, client):
		return fmt.Errorf("aud is %s, without this client", c["aud"])
	}
	return nil
}

// check returns an error unless the claims of an ID token are current, and for this client and flow (OpenID Connect Core 1.0 section
// 3.1.3.7). It returns ErrFlow for another flow. Other audiences, which a client may distrust, need an azp here. Since errata set 2 azp is
// for extensions; it must be this client.
func (c claims) check(issuer, client, nonce string, now time.Time) error {
	party, named := c["azp"]
	switch err := c.checkParties(issuer, client); {
	case err != nil:
		return err
	case named && c.text("azp") != client:
		return fmt.Errorf("azp is %s, another client", party)
	case !named && slices.ContainsFunc(c.texts("aud"), func(other string) bool { return other != client }):
		return fmt.Errorf("aud is %s, others beside this client, without an azp", c["aud"])
	case !now.Before(c.time("exp")):
		return fmt.Errorf("exp is %s: expired", c["exp"])
	case c.text("nonce") == "":
		return errors.New("no nonce")
	case c.text("nonce") != nonce: // a code was injected (RFC 9700 section 4.5.3.2)
		return fmt.Errorf("%w: nonce of another flow", ErrFlow)
	case !validSubject(c.text("sub")):
		return errors.New("sub is not 1 to 255 ASCII characters")
	}
	return nil
}

// validSubject reports whether sub is 1 to 255 ASCII characters (OpenID Connect Core 1.0 section 2), none of them a control character.
func validSubject(sub string) bool {
	return sub != "" && len(sub) <= 255 && !strings.ContainsFunc(sub, func(r rune) bool { return r < ' ' || r > '~' })
}
