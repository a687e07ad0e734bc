package config

import (
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/publicsuffix"
)

func (c *Config) origins(setting string, origins []string, allowed func(string) bool) []check {
	isSafe := func(origin string) bool {
		return c.Development || !isOrigin(origin) || strings.HasPrefix(origin, "https:") || isLoopback(parseHTTPURL(origin).Hostname())
	}
	return append(
		each(setting, origins, allowed, "must be an exact origin as browsers send it, such as https://app.example.org: scheme, host and, unless it is the usual one, port, in lower case"),
		each(setting, origins, isSafe, "must be https in production, except on localhost")...)
}

// isOrigin reports whether text is an origin as browsers spell it (RFC 6454 section 6.2): any other spelling would match nothing.
func isOrigin(text string) bool {
	u := parseHTTPURL(text)
	return u != nil && text == u.Scheme+"://"+u.Host && text == strings.ToLower(text) &&
		!strings.Contains(text, "*") && !strings.HasSuffix(text, ":") && u.Port() != map[string]string{"http": "80", "https": "443"}[u.Scheme]
}

// appOrigin is the origin of an app's web view, such as tauri://localhost. Nobody reaches it over the network.
var appOrigin = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://[A-Za-z0-9._-]+(:[0-9]+)?$`)

func isPageOrigin(text string) bool {
	scheme, _, _ := strings.Cut(text, ":")
	return isOrigin(text) || appOrigin.MatchString(text) && !slices.Contains([]string{"http", "https", "ws", "wss", "file", "data", "javascript"}, scheme)
}

// brand is a BRAND_NAME. Up to 40 characters fit into the head of a page beside the user's name.
var brand = regexp.MustCompile(`^[\pL\pM\pN\pP\pS ]+$`)

func (c *Config) pages() []check {
	return append([]check{
		{"BRAND_NAME", utf8.ValidString(c.BrandName) && utf8.RuneCountInString(c.BrandName) <= 40 && brand.MatchString(c.BrandName) && strings.Trim(c.BrandName, " ") != "",
			"must be 1 to 40 characters that can be seen, or spaces between them"},
	}, each("SECURITY_CONTACT", c.SecurityContacts, isContact, "must be a URI such as mailto:security@example.org, https://example.org/report or tel:+1-201-555-0123")...)
}

// isContact reports whether text is a contact of security.txt (RFC 9116 section 2.5.3).
func isContact(text string) bool {
	u, err := url.Parse(text)
	return err == nil && slices.Contains([]string{"mailto", "https", "tel"}, u.Scheme) && u.Host+u.Opaque != "" &&
		!strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

func (c *Config) provider() []check {
	used, issuer := c.OIDCIssuer != "", parseHTTPURL(c.OIDCIssuer)
	return []check{
		{"OIDC_ISSUER", used || c.OIDCClientID == "" && c.OIDCClientSecret == "", "is required with OIDC_CLIENT_ID and OIDC_CLIENT_SECRET"},
		{"OIDC_ISSUER", !used || issuer != nil, "must be an https address without a query"}, // OpenID Connect Discovery 1.0 section 2
		{"OIDC_ISSUER", issuer == nil || issuer.Scheme == "https" || c.Development || IsLocal(issuer.Hostname()), "must be https in production, except on localhost"},
		{"OIDC_CLIENT_ID", !used || c.OIDCClientID != "", "is required with OIDC_ISSUER"},
		{"OIDC_SCOPES", !used || slices.Contains(strings.Fields(c.OIDCScopes), "openid"), "must name openid, and what else to ask for, separated by spaces"},
	}
}

// bearer is a token for the header Authorization (RFC 6750 section 2.1).
var bearer = regexp.MustCompile(`^[A-Za-z0-9._~+/-]*=*$`)

// worldAccess fills in WorldAccess.
func (c *Config) worldAccess() []check {
	u, err := url.Parse(c.WorldAccessURL)
	if err == nil && c.WorldAccessURL != "" && parseHTTPURL(strings.TrimSuffix(c.WorldAccessURL, "?"+u.RawQuery)) != nil {
		c.WorldAccess = u
	}
	token := c.Source("WORLD_ACCESS_TOKEN")
	return []check{
		{"WORLD_ACCESS_URL", c.WorldAccessURL == "" || c.WorldAccess != nil, "must be an http or https address without a user: the token is WORLD_ACCESS_TOKEN"},
		{token, c.WorldAccessURL != "" || c.WorldAccessToken == "", "has no use without WORLD_ACCESS_URL"},
		{token, bearer.MatchString(c.WorldAccessToken), "must be a bearer token: letters, digits and -._~+/, and perhaps = at its end"},
	}
}

func (c *Config) cookies() []check {
	covers, suffix := true, false
	if c.CookieDomain != "" && c.Base != nil {
		host, domain := c.Base.Hostname(), strings.TrimPrefix(c.CookieDomain, ".")
		covers = coversHost(domain, host)
		suffix = covers && isPublicSuffix(domain, host)
	}
	return []check{
		{"COOKIE_DOMAIN", covers, "must be the host of BASE_URL or a domain above it, or browsers refuse the cookies"},
		{"COOKIE_DOMAIN", !suffix, "is a public suffix, below which anybody may have a host: browsers refuse the cookies"},
		{"COOKIE_PARTITIONED", !c.CookiePartitioned || !c.Development, "needs Secure cookies, which APP_ENV=development does not set"},
	}
}

// coversHost reports whether domain is host or above it (RFC 6265 section 5.1.3).
func coversHost(domain, host string) bool {
	return domain != "" && (host == domain || strings.HasSuffix(host, "."+domain)) && net.ParseIP(domain) == nil &&
		strings.Trim(domain, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.") == ""
}

// isPublicSuffix reports whether browsers refuse cookies of host for domain, a public suffix (RFC 6265 section 5.3).
func isPublicSuffix(domain, host string) bool {
	name := strings.ToLower(strings.TrimSuffix(domain, "."))
	suffix, icann := publicsuffix.PublicSuffix(name)
	// A name that is on no list, such as localhost, counts as a suffix. Only of the very host do browsers take it.
	listed := icann || strings.Contains(suffix, ".")
	return name == suffix && (listed || host != domain)
}
