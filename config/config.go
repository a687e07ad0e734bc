// Package config reads the environment: each variable once, with its default and meaning.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/joho/godotenv"
)

// Config is what the environment says.
type Config struct {
	// AppEnv is production or development: cookies for plain HTTP, the sign-in page, logs as text.
	AppEnv string `env:"APP_ENV" envDefault:"production"`
	// ListenAddr is the public listener.
	ListenAddr string `env:"LISTEN_ADDR" envDefault:":8080"`
	// AdminAddr is the listener of /livez, /readyz and /metrics; set but empty turns it off.
	AdminAddr string `env:"ADMIN_ADDR" envDefault:"127.0.0.1:9090"`
	// BaseURL is the public address. Its path is the cookies' Path and the prefix of every link; a proxy strips it.
	BaseURL string `env:"BASE_URL" envDefault:"http://localhost:8080"`
	// DatabaseURL is sqlite:PATH or postgres://…
	DatabaseURL string `env:"DATABASE_URL" envDefault:"sqlite:worldevents.db"`
	// DBMaxConns is the size of the PostgreSQL pool.
	DBMaxConns int `env:"DB_MAX_CONNS" envDefault:"20"`
	// DBTimeout bounds all database work of one request.
	DBTimeout time.Duration `env:"DB_TIMEOUT" envDefault:"2s"`
	// JWTSecret is one or more keys of 32 bytes or more, comma-separated: the first signs, all verify.
	JWTSecret string `env:"JWT_SECRET"`
	// JWTIssuer and JWTAudience are written into JWTs and required of them when set.
	JWTIssuer   string `env:"JWT_ISSUER"`
	JWTAudience string `env:"JWT_AUDIENCE"`
	// RefreshTokenTTL is the lifetime of a refresh token since the last refresh, and of both cookies.
	RefreshTokenTTL time.Duration `env:"REFRESH_TOKEN_TTL" envDefault:"720h"`
	// RefreshReuseLeeway is how long a refresh token that was just replaced may come back without harm.
	RefreshReuseLeeway time.Duration `env:"REFRESH_REUSE_LEEWAY" envDefault:"60s"`
	// AllowedOrigins are the exact origins whose pages may call the API, comma-separated.
	AllowedOrigins []string `env:"ALLOWED_ORIGINS"`
	// CookieDomain widens the cookies to a domain; empty keeps them host-only.
	CookieDomain string `env:"COOKIE_DOMAIN"`
	// CookiePartitioned adds the attribute Partitioned.
	CookiePartitioned bool `env:"COOKIE_PARTITIONED" envDefault:"false"`
	// OIDCIssuer is the identity provider to sign in with, exactly as it calls itself; empty means none.
	OIDCIssuer string `env:"OIDC_ISSUER"`
	// OIDCClientID and OIDCClientSecret are what the provider gave this service; a public client has no secret.
	OIDCClientID     string `env:"OIDC_CLIENT_ID"`
	OIDCClientSecret string `env:"OIDC_CLIENT_SECRET"`
	// OIDCScopes are asked for, separated by spaces.
	OIDCScopes string `env:"OIDC_SCOPES" envDefault:"openid profile"`
	// OIDCUsernameClaim is the claim that new users are named after.
	OIDCUsernameClaim string `env:"OIDC_USERNAME_CLAIM" envDefault:"preferred_username"`
	// ReturnOrigins are the exact origins, besides the service's own paths, that a sign-in may lead back to.
	ReturnOrigins []string `env:"RETURN_ORIGINS"`
	// TrustedProxies are networks whose X-Forwarded-For is believed, as CIDRs, comma-separated.
	TrustedProxies []string `env:"TRUSTED_PROXIES"`
	// RateLimit is the number of requests a second allowed to one client; 0 means no limit.
	RateLimit float64 `env:"RATE_LIMIT" envDefault:"0"`
	// MaxInFlight is the number of requests handled at once; more are answered 503.
	MaxInFlight int `env:"MAX_IN_FLIGHT" envDefault:"2048"`
	// Docs turns on /docs, /openapi.json and /openapi.yaml.
	Docs bool `env:"DOCS" envDefault:"true"`
	// LogLevel is debug, info, warn or error.
	LogLevel slog.Level `env:"LOG_LEVEL" envDefault:"info"`
	// LogFormat is json or text; the default is text in development.
	LogFormat string `env:"LOG_FORMAT"`
	// ShutdownTimeout bounds the time from SIGTERM to the end of the process.
	ShutdownTimeout time.Duration `env:"SHUTDOWN_TIMEOUT" envDefault:"10s"`

	// What the texts above mean, filled in by Load.
	Development bool           `env:"-"`
	Base        *url.URL       `env:"-"`
	Keys        [][]byte       `env:"-"`
	Proxies     []netip.Prefix `env:"-"`
	// DatabaseSet tells that DATABASE_URL was given.
	DatabaseSet bool `env:"-"`
}

// Load reads the file .env in the working directory, if there is one, and the environment, which wins. The error
// names every fault at once and quotes no secret. A command that signs or verifies nothing needs no key.
func Load(needKey bool) (*Config, error) {
	values, err := godotenv.Read()
	if path := new(fs.PathError); errors.As(err, &path) && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf(".env: %w", path.Err)
	} else if err != nil && path.Err == nil {
		return nil, errors.New(".env: must be lines of NAME=value") // the cause would quote the line
	}
	all := make(map[string]string)
	maps.Copy(all, values)
	maps.Copy(all, env.ToMap(os.Environ()))
	return parse(all, needKey)
}

func parse(values map[string]string, needKey bool) (*Config, error) {
	c := new(Config)
	admin, adminSet := values["ADMIN_ADDR"]
	maps.DeleteFunc(values, func(_, value string) bool { return value == "" }) // empty is unset
	var faults []error
	fault := func(name, format string, args ...any) {
		faults = append(faults, fmt.Errorf("%s: %s", name, fmt.Sprintf(format, args...)))
	}

	for err := range typeFaults(env.ParseWithOptions(c, env.Options{Environment: values})) {
		field, _ := reflect.TypeFor[Config]().FieldByName(err.Name)
		name := field.Tag.Get("env")
		fault(name, "must be %s", kinds[err.Type.String()])
		delete(values, name)
	}
	if len(faults) > 0 { // read again with defaults in their place, to find what else is wrong
		*c = Config{}
		env.ParseWithOptions(c, env.Options{Environment: values})
	}
	if adminSet {
		c.AdminAddr = admin // but here empty means off
	}
	c.DatabaseSet = values["DATABASE_URL"] != ""

	switch c.AppEnv {
	case "production", "development":
		c.Development = c.AppEnv == "development"
	default:
		fault("APP_ENV", "must be production or development")
	}
	if _, _, err := net.SplitHostPort(c.ListenAddr); err != nil {
		fault("LISTEN_ADDR", "must be host:port or :port")
	}
	if _, _, err := net.SplitHostPort(c.AdminAddr); err != nil && c.AdminAddr != "" {
		fault("ADMIN_ADDR", "must be host:port, :port or empty")
	}
	var err error
	if c.Base, err = url.Parse(c.BaseURL); err != nil || !isWeb(c.Base) || c.Base.RawQuery != "" || c.Base.Fragment != "" ||
		strings.ContainsAny(c.BaseURL, ";, \"<>") {
		fault("BASE_URL", "must be an http or https address without a query")
		c.Base = nil
	}
	switch scheme, rest, _ := strings.Cut(c.DatabaseURL, ":"); {
	case scheme == "sqlite" && rest == "", scheme == "sqlite" && strings.HasPrefix(rest, ":memory:"):
		fault("DATABASE_URL", "sqlite: needs the path of a file")
	case scheme != "sqlite" && scheme != "postgres" && scheme != "postgresql":
		fault("DATABASE_URL", "must begin with sqlite: or postgres://")
	}
	if c.DBMaxConns < 1 {
		fault("DB_MAX_CONNS", "must be 1 or more")
	}
	if c.DBTimeout < time.Millisecond {
		fault("DB_TIMEOUT", "must be 1ms or more")
	}
	faults = append(faults, c.secrets(needKey, c.JWTSecret)...)
	if c.RefreshTokenTTL < time.Second || c.RefreshTokenTTL > 400*24*time.Hour {
		fault("REFRESH_TOKEN_TTL", "must be from 1s to 9600h, the longest that browsers keep a cookie")
	}
	if c.RefreshReuseLeeway < 0 {
		fault("REFRESH_REUSE_LEEWAY", "must not be negative")
	}
	exact := func(name string, origins []string) {
		for _, origin := range origins {
			if !isOrigin(origin) {
				fault(name, "%q must be an exact origin as browsers send it, such as https://app.example.org: scheme, host and, unless it is the usual one, port, in lower case", origin)
			}
		}
	}
	exact("ALLOWED_ORIGINS", c.AllowedOrigins)
	exact("RETURN_ORIGINS", c.ReturnOrigins)
	faults = append(faults, c.provider()...)
	if c.CookieDomain != "" && c.Base != nil {
		domain, host := strings.TrimPrefix(c.CookieDomain, "."), c.Base.Hostname()
		if host != domain && !strings.HasSuffix(host, "."+domain) || net.ParseIP(domain) != nil || strings.Trim(domain, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.") != "" {
			fault("COOKIE_DOMAIN", "must be the host of BASE_URL or a domain above it, or browsers refuse the cookies")
		}
	}
	if c.CookiePartitioned && c.Development {
		fault("COOKIE_PARTITIONED", "needs Secure cookies, which APP_ENV=development does not set")
	}
	for _, cidr := range c.TrustedProxies {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil {
			fault("TRUSTED_PROXIES", "%q must be a network such as 10.0.0.0/8", cidr)
		}
		c.Proxies = append(c.Proxies, prefix)
	}
	if !(c.RateLimit >= 0 && c.RateLimit <= 1e9) {
		fault("RATE_LIMIT", "must be 0 or more")
	}
	if c.MaxInFlight < 1 {
		fault("MAX_IN_FLIGHT", "must be 1 or more")
	}
	switch c.LogFormat {
	case "":
		c.LogFormat = "json"
		if c.Development {
			c.LogFormat = "text"
		}
	case "json", "text":
	default:
		fault("LOG_FORMAT", "must be json or text")
	}
	if c.ShutdownTimeout <= 0 {
		fault("SHUTDOWN_TIMEOUT", "must be more than 0")
	}
	return c, errors.Join(faults...)
}

// typeFaults are the fields whose text is not of their type.
func typeFaults(err error) iter.Seq[env.ParseError] {
	return func(yield func(env.ParseError) bool) {
		var several env.AggregateError
		errors.As(err, &several)
		for _, err := range several.Errors {
			var one env.ParseError
			if errors.As(err, &one) && !yield(one) {
				return
			}
		}
	}
}

// kinds says what a value of a type looks like.
var kinds = map[string]string{
	"time.Duration": "a duration such as 30s or 720h",
	"int":           "a whole number",
	"float64":       "a number",
	"bool":          "true or false",
	"slog.Level":    "debug, info, warn or error",
}

// examples are parts of keys that stand in documentation for everybody to read.
var examples = []string{
	"changeme", "change-me", "change_me", "change this", "replace-me", "replace_me", "your-256-bit-secret", "your-secret",
	"your_secret", "a-string-secret-at-least-256-bits-long", "a-valid-string-secret-that-is-at-least-512-bits-long",
}

// secrets splits the keys (RFC 7518 section 3.2 asks for 256 bits) and says what is wrong with them, never what
// they are.
func (c *Config) secrets(needKey bool, text string) (faults []error) {
	if text == "" {
		if needKey {
			faults = append(faults, errors.New("JWT_SECRET: is required: 32 bytes or more, such as the output of: openssl rand -hex 32"))
		}
		return faults
	}
	for i, secret := range strings.Split(text, ",") {
		secret = strings.TrimSpace(secret)
		c.Keys = append(c.Keys, []byte(secret))
		if len(secret) < 32 {
			faults = append(faults, fmt.Errorf("JWT_SECRET: key %d is shorter than 32 bytes", i+1))
		}
		for _, example := range examples {
			if strings.Contains(strings.ToLower(secret), example) {
				faults = append(faults, fmt.Errorf("JWT_SECRET: key %d is a known example", i+1))
				break
			}
		}
	}
	return faults
}

// provider says what is wrong with the settings of the identity provider.
func (c *Config) provider() (faults []error) {
	fault := func(text string) { faults = append(faults, errors.New(text)) }
	if c.OIDCIssuer == "" {
		if c.OIDCClientID != "" || c.OIDCClientSecret != "" {
			fault("OIDC_ISSUER: is required with OIDC_CLIENT_ID and OIDC_CLIENT_SECRET")
		}
		return faults
	}
	u, err := url.Parse(c.OIDCIssuer)
	switch {
	// OpenID Connect Discovery 1.0 section 2.
	case err != nil || !isWeb(u) || u.RawQuery != "" || u.Fragment != "":
		fault("OIDC_ISSUER: must be an https address without a query")
	case u.Scheme != "https" && !c.Development && !isLocal(u.Hostname()):
		fault("OIDC_ISSUER: must be https in production, except on localhost")
	}
	if c.OIDCClientID == "" {
		fault("OIDC_CLIENT_ID: is required with OIDC_ISSUER")
	}
	if !slices.Contains(strings.Fields(c.OIDCScopes), "openid") {
		fault("OIDC_SCOPES: must name openid, and what else to ask for, separated by spaces")
	}
	return faults
}

func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// isOrigin tells whether text is an origin in the one spelling that browsers send (RFC 6454 section 6.2): any other
// would match nothing.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && isWeb(u) && text == u.Scheme+"://"+u.Host && text == strings.ToLower(text) &&
		!strings.Contains(text, "*") && !strings.HasSuffix(text, ":") && u.Port() != map[string]string{"http": "80", "https": "443"}[u.Scheme]
}

func isWeb(u *url.URL) bool {
	return (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && u.Opaque == ""
}
