package config

import (
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/publicsuffix"
)

func (c *Config) checkOrigins(found *faults, setting string, origins []string) {
	for _, origin := range origins {
		if !isOrigin(origin) {
			found.add(setting, "%q must be an exact origin as browsers send it, such as https://app.example.org: scheme, host and, unless it is the usual one, port, in lower case", origin)
		} else if u, _ := url.Parse(origin); u.Scheme == "http" && !c.Development && !isLoopback(u.Hostname()) {
			found.add(setting, "%q must be https in production, except on localhost", origin)
		}
	}
}

// isOrigin reports whether text is an origin in the one spelling that browsers send (RFC 6454 section 6.2): any other
// would match nothing.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && isHTTPURL(u) && text == u.Scheme+"://"+u.Host && text == strings.ToLower(text) &&
		!strings.Contains(text, "*") && !strings.HasSuffix(text, ":") && u.Port() != map[string]string{"http": "80", "https": "443"}[u.Scheme]
}

// maxBrand is the longest BRAND_NAME, in code points: it fits into the head of a page beside who is signed in.
const maxBrand = 40

func (c *Config) checkBrand(found *faults) {
	unseen := func(r rune) bool { return !unicode.IsPrint(r) }
	found.require("BRAND_NAME", utf8.ValidString(c.BrandName) && utf8.RuneCountInString(c.BrandName) <= maxBrand && !strings.ContainsFunc(c.BrandName, unseen) &&
		strings.Trim(c.BrandName, " ") != "", "must be 1 to %d characters that can be seen, or spaces between them", maxBrand)
}

func (c *Config) checkContacts(found *faults) {
	for _, contact := range c.SecurityContacts {
		found.require("SECURITY_CONTACT", isContact(contact), "%q must be a URI such as mailto:security@example.org, https://example.org/report or tel:+1-201-555-0123", contact)
	}
}

// isContact reports whether text is a URI by which people can be reached (RFC 9116 section 2.5.3).
func isContact(text string) bool {
	u, err := url.Parse(text)
	return err == nil && slices.Contains([]string{"mailto", "https", "tel"}, u.Scheme) && u.Host+u.Opaque != "" &&
		!strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// checkProvider looks at the settings of the identity provider.
func (c *Config) checkProvider(found *faults) {
	if c.OIDCIssuer == "" {
		found.require("OIDC_ISSUER", c.OIDCClientID == "" && c.OIDCClientSecret == "", "is required with OIDC_CLIENT_ID and OIDC_CLIENT_SECRET")
		return
	}
	u, err := url.Parse(c.OIDCIssuer)
	switch {
	// OpenID Connect Discovery 1.0 section 2.
	case err != nil || !isHTTPURL(u) || u.RawQuery != "" || u.Fragment != "":
		found.add("OIDC_ISSUER", "must be an https address without a query")
	case u.Scheme != "https" && !c.Development && !IsLocal(u.Hostname()):
		found.add("OIDC_ISSUER", "must be https in production, except on localhost")
	}
	found.require("OIDC_CLIENT_ID", c.OIDCClientID != "", "is required with OIDC_ISSUER")
	found.require("OIDC_SCOPES", slices.Contains(strings.Fields(c.OIDCScopes), "openid"), "must name openid, and what else to ask for, separated by spaces")
}

func (c *Config) checkCookies(found *faults) {
	if c.CookieDomain != "" && c.Base != nil {
		if err := checkCookieDomain(c.CookieDomain, c.Base.Hostname()); err != nil {
			found.add("COOKIE_DOMAIN", "%v", err)
		}
	}
	found.require("COOKIE_PARTITIONED", !c.CookiePartitioned || !c.Development, "needs Secure cookies, which APP_ENV=development does not set")
}

// checkCookieDomain returns an error for a domain that browsers take no cookies of host for (RFC 6265 section 5.3).
func checkCookieDomain(domain, host string) error {
	domain = strings.TrimPrefix(domain, ".")
	if domain == "" || host != domain && !strings.HasSuffix(host, "."+domain) || net.ParseIP(domain) != nil ||
		strings.Trim(domain, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.") != "" {
		return errors.New("must be the host of BASE_URL or a domain above it, or browsers refuse the cookies")
	}
	name := strings.ToLower(strings.TrimSuffix(domain, "."))
	suffix, icann := publicsuffix.PublicSuffix(name)
	// A name that is on no list, such as localhost, counts as a suffix. Only of the very host do browsers take it.
	listed := icann || strings.Contains(suffix, ".")
	if name == suffix && (listed || host != domain) {
		return errors.New("is a public suffix, below which anybody may have a host: browsers refuse the cookies")
	}
	return nil
}
