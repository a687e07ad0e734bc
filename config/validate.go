package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"
)

// hostName is a name in DNS, or a label of one, such as containers have.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*$`)

// validate fills in what the texts mean, and returns everything that is wrong with their values.
func (c *Config) validate(needKey bool) (problems []error) {
	problem := func(name, format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s: %s", name, fmt.Sprintf(format, args...)))
	}
	switch c.AppEnv {
	case "production", "development":
		c.Development = c.AppEnv == "development"
	default:
		problem("APP_ENV", "must be production or development")
	}
	if err := c.listener(); err != nil {
		problem("LISTEN_ADDR", "%v", err)
	}
	if c.AdminAddr != "" && !isAddress(c.AdminAddr) {
		problem("ADMIN_ADDR", "must be host:port, :port or empty, with a port of 0 to 65535")
	}
	for _, host := range c.AdminHosts {
		if !hostName.MatchString(host) {
			problem("ADMIN_HOSTS", "%q must be a host name without port", host)
		}
	}
	var err error
	if c.Base, err = url.Parse(c.BaseURL); err != nil || !isHTTPURL(c.Base) || c.Base.RawQuery != "" || c.Base.Fragment != "" ||
		strings.ContainsAny(c.BaseURL, ";, \"<>") {
		problem("BASE_URL", "must be an http or https address without a query")
		c.Base = nil
	} else if c.Development && !c.DevelopmentPublic && !isLoopback(c.Base.Hostname()) {
		problem("BASE_URL", "must be on localhost in development, where anybody signs in as anybody, unless DEVELOPMENT_PUBLIC=true")
	}
	problems = append(problems, c.tls()...)
	switch scheme, rest, _ := strings.Cut(c.DatabaseURL, ":"); {
	case scheme == "sqlite" && rest == "", scheme == "sqlite" && strings.HasPrefix(rest, ":memory:"):
		problem(c.Source("DATABASE_URL"), "sqlite: needs the path of a file")
	case scheme != "sqlite" && scheme != "postgres" && scheme != "postgresql":
		problem(c.Source("DATABASE_URL"), "must begin with sqlite: or postgres://")
	}
	if c.DBMaxConns < 1 || c.DBMaxConns > maxDBConns {
		problem("DB_MAX_CONNS", "must be from 1 to %d", maxDBConns)
	}
	if c.DBTimeout < time.Millisecond || c.DBTimeout > WriteTimeout {
		problem("DB_TIMEOUT", "must be from 1ms to %v, when the server gives a response up", WriteTimeout)
	}
	problems = append(problems, c.secrets(needKey, c.JWTSecret)...)
	if c.JWTTTL < time.Second || c.JWTTTL > jwtTTL {
		problem("JWT_TTL", "must be from 1s to 15m")
	} else if c.JWTTTL != jwtTTL && !c.Development {
		problem("JWT_TTL", "must be 15m in production: only development may shorten it")
	}
	longestLeeway := 10 * time.Minute
	if c.RefreshTokenTTL < time.Second || c.RefreshTokenTTL > 400*24*time.Hour {
		problem("REFRESH_TOKEN_TTL", "must be from 1s to 9600h, the longest that browsers keep a cookie")
	} else {
		longestLeeway = min(longestLeeway, c.RefreshTokenTTL)
	}
	if c.given["REFRESH_REUSE_LEEWAY"] == "" {
		c.RefreshReuseLeeway = min(c.RefreshReuseLeeway, longestLeeway)
	}
	if c.RefreshReuseLeeway <= 0 || c.RefreshReuseLeeway > longestLeeway {
		problem("REFRESH_REUSE_LEEWAY", "must be more than 0, at most 10m and at most REFRESH_TOKEN_TTL")
	}
	if c.SessionsPerUser < 1 || c.SessionsPerUser > 100 {
		problem("SESSIONS_PER_USER", "must be from 1 to 100")
	}
	if c.OIDCIssuer != "" && c.given["SESSION_MAX_AGE"] == "" {
		c.SessionMaxAge = 720 * time.Hour // the provider may have disabled the user, and cannot always say so
	}
	if c.SessionMaxAge < 0 || c.SessionMaxAge > 0 && c.SessionMaxAge < time.Second {
		problem("SESSION_MAX_AGE", "must be 0, which means no limit, or 1s or more")
	}
	checkOrigins := func(name string, origins []string) {
		for _, origin := range origins {
			if !isOrigin(origin) {
				problem(name, "%q must be an exact origin as browsers send it, such as https://app.example.org: scheme, host and, unless it is the usual one, port, in lower case", origin)
			} else if u, _ := url.Parse(origin); u.Scheme == "http" && !c.Development && !isLoopback(u.Hostname()) {
				problem(name, "%q must be https in production, except on localhost", origin)
			}
		}
	}
	checkOrigins("ALLOWED_ORIGINS", c.AllowedOrigins)
	checkOrigins("RETURN_ORIGINS", c.ReturnOrigins)
	for _, contact := range c.SecurityContacts {
		u, err := url.Parse(contact)
		if err != nil || !slices.Contains([]string{"mailto", "https", "tel"}, u.Scheme) || u.Host+u.Opaque == "" || strings.ContainsFunc(contact, func(r rune) bool { return r <= ' ' || r > '~' }) {
			problem("SECURITY_CONTACT", "%q must be a URI such as mailto:security@example.org, https://example.org/report or tel:+1-201-555-0123", contact)
		}
	}
	problems = append(problems, c.provider()...)
	if c.CookieDomain != "" && c.Base != nil {
		if err := checkCookieDomain(c.CookieDomain, c.Base.Hostname()); err != nil {
			problem("COOKIE_DOMAIN", "%v", err)
		}
	}
	if c.CookiePartitioned && c.Development {
		problem("COOKIE_PARTITIONED", "needs Secure cookies, which APP_ENV=development does not set")
	}
	for _, cidr := range c.TrustedProxies {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil {
			problem("TRUSTED_PROXIES", "%q must be a network such as 10.0.0.0/8", cidr)
			continue
		}
		c.Proxies = append(c.Proxies, unmap(prefix))
	}
	if tooWide(c.Proxies) {
		problem("TRUSTED_PROXIES", "trusts a sixteenth of all addresses or more, so that clients choose the address they come from: list the networks of the proxies")
	}
	if !(c.RateLimit >= 0 && c.RateLimit <= 1e9) {
		problem("RATE_LIMIT", "must be 0 or more")
	}
	if !(c.WriteRate >= 0 && c.WriteRate <= 1e9) {
		problem("WRITE_RATE", "must be 0 or more")
	}
	if c.MaxInFlight < 1 {
		problem("MAX_IN_FLIGHT", "must be 1 or more")
	}
	if c.MaxWaiting < 0 {
		problem("MAX_WAITING", "must be 0 or more")
	}
	const maxListCache = 64 << 10
	if c.ListCache < 0 || c.ListCache > maxListCache {
		problem("LIST_CACHE", "must be from 0 to %d", maxListCache)
	}
	switch c.LogFormat {
	case "":
		c.LogFormat = "json"
		if c.Development {
			c.LogFormat = "text"
		}
	case "json", "text":
	default:
		problem("LOG_FORMAT", "must be json or text")
	}
	var ok bool
	if c.LogEvery, ok = parseAccessLog(c.AccessLog); !ok {
		problem("ACCESS_LOG", "must be all, errors, or 1/N for one request in N, such as 1/100")
	}
	if c.ShutdownTimeout <= 0 {
		problem("SHUTDOWN_TIMEOUT", "must be more than 0")
	}
	return problems
}

// maxDBConns is more than a server of PostgreSQL does well with.
const maxDBConns = 10000

// isAddress reports whether text is host:port or :port.
func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return err == nil
}

// parseAccessLog returns how many requests leave a line together; 0 means none.
func parseAccessLog(text string) (every int64, ok bool) {
	switch text {
	case "all":
		return 1, true
	case "errors":
		return 0, true
	}
	digits, ok := strings.CutPrefix(text, "1/")
	n, err := strconv.ParseUint(digits, 10, 31)
	return int64(n), ok && err == nil && n > 0
}

// provider says what is wrong with the settings of the identity provider.
func (c *Config) provider() (problems []error) {
	problem := func(text string) { problems = append(problems, errors.New(text)) }
	if c.OIDCIssuer == "" {
		if c.OIDCClientID != "" || c.OIDCClientSecret != "" {
			problem("OIDC_ISSUER: is required with OIDC_CLIENT_ID and OIDC_CLIENT_SECRET")
		}
		return problems
	}
	u, err := url.Parse(c.OIDCIssuer)
	switch {
	// OpenID Connect Discovery 1.0 section 2.
	case err != nil || !isHTTPURL(u) || u.RawQuery != "" || u.Fragment != "":
		problem("OIDC_ISSUER: must be an https address without a query")
	case u.Scheme != "https" && !c.Development && !IsLocal(u.Hostname()):
		problem("OIDC_ISSUER: must be https in production, except on localhost")
	}
	if c.OIDCClientID == "" {
		problem("OIDC_CLIENT_ID: is required with OIDC_ISSUER")
	}
	if !slices.Contains(strings.Fields(c.OIDCScopes), "openid") {
		problem("OIDC_SCOPES: must name openid, and what else to ask for, separated by spaces")
	}
	return problems
}

// listener finds out where to listen. In development that is on loopback alone, unless LISTEN_ADDR says otherwise: there
// anybody who reaches the service signs in as anybody.
func (c *Config) listener() error {
	c.ListenAddrs = []string{c.ListenAddr}
	_, text, err := net.SplitHostPort(c.ListenAddr)
	if err != nil {
		return errors.New("must be host:port or :port")
	}
	port, err := net.LookupPort("tcp", text)
	if err != nil {
		return errors.New("must end with a port, 0 to 65535")
	}
	if c.Development && c.given["LISTEN_ADDR"] == "" {
		c.ListenAddrs = []string{net.JoinHostPort("127.0.0.1", text), net.JoinHostPort("::1", text)}
	}
	c.UsePort(port)
	return nil
}

// UsePort makes port, of the public listener, that of the default of BASE_URL. It changes nothing in production, nor
// where BASE_URL is set.
func (c *Config) UsePort(port int) {
	if !c.Development || c.given["BASE_URL"] != "" {
		return
	}
	scheme, usual := "http", 80
	if c.TLS != "off" {
		scheme, usual = "https", 443
	}
	c.BaseURL = scheme + "://localhost"
	if port != usual {
		c.BaseURL += ":" + strconv.Itoa(port)
	}
	c.Base, _ = url.Parse(c.BaseURL)
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

// unmap spells a network of IPv4 addresses that are mapped into IPv6 (RFC 4291 section 2.5.5.2) as one of IPv4, which is
// what package net takes it for.
func unmap(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() {
		return netip.PrefixFrom(p.Addr().Unmap(), max(p.Bits()-96, 0))
	}
	return p
}

// tooWide reports whether networks hold a sixteenth of all IPv4 or of all IPv6 addresses. All private networks are less,
// all public addresses of either kind are more.
func tooWide(networks []netip.Prefix) bool {
	var shares [2]float64
	for _, p := range networks {
		family := 0
		if p.Addr().Is6() {
			family = 1
		}
		shares[family] += math.Ldexp(1, -p.Bits())
	}
	return max(shares[0], shares[1]) >= 1./16
}

// isLoopback reports whether browsers take host for this machine (RFC 6761 section 6.3).
func isLoopback(host string) bool {
	host = strings.ToLower(host)
	return IsLocal(host) || strings.HasSuffix(host, ".localhost")
}

// IsLocal reports whether host is localhost or a loopback address.
func IsLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// isOrigin reports whether text is an origin in the one spelling that browsers send (RFC 6454 section 6.2): any other
// would match nothing.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && isHTTPURL(u) && text == u.Scheme+"://"+u.Host && text == strings.ToLower(text) &&
		!strings.Contains(text, "*") && !strings.HasSuffix(text, ":") && u.Port() != map[string]string{"http": "80", "https": "443"}[u.Scheme]
}

func isHTTPURL(u *url.URL) bool {
	return (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil
}
