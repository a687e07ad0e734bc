package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

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
	if _, _, err := net.SplitHostPort(c.ListenAddr); err != nil {
		problem("LISTEN_ADDR", "must be host:port or :port")
	}
	if _, _, err := net.SplitHostPort(c.AdminAddr); err != nil && c.AdminAddr != "" {
		problem("ADMIN_ADDR", "must be host:port, :port or empty")
	}
	var err error
	if c.Base, err = url.Parse(c.BaseURL); err != nil || !isHTTPURL(c.Base) || c.Base.RawQuery != "" || c.Base.Fragment != "" ||
		strings.ContainsAny(c.BaseURL, ";, \"<>") {
		problem("BASE_URL", "must be an http or https address without a query")
		c.Base = nil
	}
	switch scheme, rest, _ := strings.Cut(c.DatabaseURL, ":"); {
	case scheme == "sqlite" && rest == "", scheme == "sqlite" && strings.HasPrefix(rest, ":memory:"):
		problem("DATABASE_URL", "sqlite: needs the path of a file")
	case scheme != "sqlite" && scheme != "postgres" && scheme != "postgresql":
		problem("DATABASE_URL", "must begin with sqlite: or postgres://")
	}
	if c.DBMaxConns < 1 {
		problem("DB_MAX_CONNS", "must be 1 or more")
	}
	if c.DBTimeout < time.Millisecond {
		problem("DB_TIMEOUT", "must be 1ms or more")
	}
	problems = append(problems, c.secrets(needKey, c.JWTSecret)...)
	longestLeeway := 10 * time.Minute
	if c.RefreshTokenTTL < time.Second || c.RefreshTokenTTL > 400*24*time.Hour {
		problem("REFRESH_TOKEN_TTL", "must be from 1s to 9600h, the longest that browsers keep a cookie")
	} else {
		longestLeeway = min(longestLeeway, c.RefreshTokenTTL)
	}
	if !c.LeewaySet {
		c.RefreshReuseLeeway = min(c.RefreshReuseLeeway, longestLeeway)
	}
	if c.RefreshReuseLeeway <= 0 || c.RefreshReuseLeeway > longestLeeway {
		problem("REFRESH_REUSE_LEEWAY", "must be more than 0, at most 10m and at most REFRESH_TOKEN_TTL")
	}
	if c.SessionsPerUser < 1 || c.SessionsPerUser > 100 {
		problem("SESSIONS_PER_USER", "must be from 1 to 100")
	}
	if c.SessionMaxAge < 0 || c.SessionMaxAge > 0 && c.SessionMaxAge < time.Second {
		problem("SESSION_MAX_AGE", "must be 0, which means no limit, or 1s or more")
	}
	checkOrigins := func(name string, origins []string) {
		for _, origin := range origins {
			if !isOrigin(origin) {
				problem(name, "%q must be an exact origin as browsers send it, such as https://app.example.org: scheme, host and, unless it is the usual one, port, in lower case", origin)
			}
		}
	}
	checkOrigins("ALLOWED_ORIGINS", c.AllowedOrigins)
	checkOrigins("RETURN_ORIGINS", c.ReturnOrigins)
	problems = append(problems, c.provider()...)
	if c.CookieDomain != "" && c.Base != nil {
		domain, host := strings.TrimPrefix(c.CookieDomain, "."), c.Base.Hostname()
		if host != domain && !strings.HasSuffix(host, "."+domain) || net.ParseIP(domain) != nil || strings.Trim(domain, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.") != "" {
			problem("COOKIE_DOMAIN", "must be the host of BASE_URL or a domain above it, or browsers refuse the cookies")
		}
	}
	if c.CookiePartitioned && c.Development {
		problem("COOKIE_PARTITIONED", "needs Secure cookies, which APP_ENV=development does not set")
	}
	for _, cidr := range c.TrustedProxies {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil {
			problem("TRUSTED_PROXIES", "%q must be a network such as 10.0.0.0/8", cidr)
		}
		c.Proxies = append(c.Proxies, prefix)
	}
	if !(c.RateLimit >= 0 && c.RateLimit <= 1e9) {
		problem("RATE_LIMIT", "must be 0 or more")
	}
	if c.MaxInFlight < 1 {
		problem("MAX_IN_FLIGHT", "must be 1 or more")
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
	if c.ShutdownTimeout <= 0 {
		problem("SHUTDOWN_TIMEOUT", "must be more than 0")
	}
	return problems
}

// wellKnownSecrets are parts of keys that stand in documentation for everybody to read.
var wellKnownSecrets = []string{
	"changeme", "change-me", "change_me", "change this", "replace-me", "replace_me", "your-256-bit-secret", "your-secret",
	"your_secret", "a-string-secret-at-least-256-bits-long", "a-valid-string-secret-that-is-at-least-512-bits-long",
}

// secrets splits the keys (RFC 7518 section 3.2 asks for 256 bits) and says what is wrong with them, never what
// they are.
func (c *Config) secrets(needKey bool, text string) (problems []error) {
	if text == "" {
		if needKey {
			problems = append(problems, errors.New("JWT_SECRET: is required: 32 bytes or more, such as the output of: openssl rand -hex 32"))
		}
		return problems
	}
	for i, secret := range strings.Split(text, ",") {
		secret = strings.TrimSpace(secret)
		c.Keys = append(c.Keys, []byte(secret))
		if len(secret) < 32 {
			problems = append(problems, fmt.Errorf("JWT_SECRET: key %d is shorter than 32 bytes", i+1))
		}
		for _, example := range wellKnownSecrets {
			if strings.Contains(strings.ToLower(secret), example) {
				problems = append(problems, fmt.Errorf("JWT_SECRET: key %d is a known example", i+1))
				break
			}
		}
	}
	return problems
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
	case u.Scheme != "https" && !c.Development && !isLocal(u.Hostname()):
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

func isLocal(host string) bool {
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
	return (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && u.Opaque == ""
}
