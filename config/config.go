package config

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"time"

	"github.com/caarlos0/env/v11"
)

// Config is what the environment says.
type Config struct {
	// AppEnv is production, or development: cookies for plain HTTP, the sign-in page, logs as text.
	AppEnv string `env:"APP_ENV" envDefault:"production"`
	// DevelopmentPublic allows development with a BASE_URL that is not local: there anybody signs in as anybody.
	DevelopmentPublic bool `env:"DEVELOPMENT_PUBLIC" envDefault:"false"`
	// ListenAddr is the public listener. The host localhost is both loopback addresses, the default of development.
	ListenAddr string `env:"LISTEN_ADDR" envDefault:":8080"`
	// AdminAddr is the listener of /livez, /readyz and /metrics; set but empty turns it off.
	AdminAddr string `env:"ADMIN_ADDR" envDefault:"127.0.0.1:9090"`
	// AdminHosts are names, without port, by which /metrics and /debug are asked for besides addresses, localhost and AdminAddr's.
	AdminHosts []string `env:"ADMIN_HOSTS"`
	// BaseURL is the public address, with the prefix of every link. Its default has in development the port of ListenAddr.
	BaseURL string `env:"BASE_URL" envDefault:"http://localhost:8080"`
	// TLS is off, acme or files: ListenAddr speaks plain HTTP, or has the certificate of an authority or of TLSDir.
	TLS string `env:"TLS" envDefault:"off"`
	// TLSDir is the folder of the certificate and its key: cert.pem and key.pem with files.
	TLSDir string `env:"TLS_DIR" envDefault:"tls"`
	// HTTPAddr is a listener that redirects plain HTTP to BaseURL, and serves HTTP-01 challenges; empty means none.
	HTTPAddr string `env:"HTTP_ADDR"`
	// ACMEDirectory is the directory of the authority (RFC 8555 section 7.1.1); empty means Let's Encrypt.
	ACMEDirectory string `env:"ACME_DIRECTORY"`
	// HSTS is the header Strict-Transport-Security, which development never sends; set but empty means none.
	HSTS string `env:"HSTS" envDefault:"max-age=31536000; includeSubDomains"`
	// DatabaseURL is sqlite:PATH or postgres://…
	DatabaseURL string `env:"DATABASE_URL" envDefault:"sqlite:worldevents.db"`
	// DatabaseURLFile, and all settings with File below, are files with the setting of the same name, which Load fills in.
	DatabaseURLFile string `env:"DATABASE_URL_FILE"`
	// RequireDatabase has serve refuse to make a database.
	RequireDatabase bool `env:"REQUIRE_DATABASE" envDefault:"false"`
	// DBMaxConns is the size of the PostgreSQL pool.
	DBMaxConns int `env:"DB_MAX_CONNS" envDefault:"20"`
	// DBTimeout bounds all database work of one request, WriteTimeout at most.
	DBTimeout time.Duration `env:"DB_TIMEOUT" envDefault:"2s"`
	// JWTSecret is one or more keys of 32 bytes or more, comma-separated: the first signs, all verify.
	JWTSecret     string `env:"JWT_SECRET"`
	JWTSecretFile string `env:"JWT_SECRET_FILE"`
	// JWTPrivateKeyFile is a file of keys of Ed25519, in PEM: the first signs, all verify.
	JWTPrivateKeyFile string `env:"JWT_PRIVATE_KEY_FILE"`
	// JWTIssuer and JWTAudience are written into JWTs and required of them when set.
	JWTIssuer   string `env:"JWT_ISSUER"`
	JWTAudience string `env:"JWT_AUDIENCE"`
	// JWTTTL is the lifetime of a JWT. Only development may shorten it.
	JWTTTL time.Duration `env:"JWT_TTL" envDefault:"15m"`
	// RefreshTokenTTL is the lifetime of a refresh token since the last refresh, and of both cookies.
	RefreshTokenTTL time.Duration `env:"REFRESH_TOKEN_TTL" envDefault:"720h"`
	// RefreshReuseLeeway is how long a replaced refresh token may come back without harm; the default is RefreshTokenTTL at most.
	RefreshReuseLeeway time.Duration `env:"REFRESH_REUSE_LEEWAY" envDefault:"60s"`
	// SessionsPerUser is how many sessions a user may have.
	SessionsPerUser int `env:"SESSIONS_PER_USER" envDefault:"1"`
	// SessionMaxAge is the lifetime of a session, however often it is refreshed; 0 means no limit. With OIDCIssuer the default is 720h.
	SessionMaxAge time.Duration `env:"SESSION_MAX_AGE" envDefault:"0"`
	// AllowedOrigins are the exact origins whose pages may call the API, comma-separated.
	AllowedOrigins []string `env:"ALLOWED_ORIGINS"`
	// CookieDomain widens the cookies to a domain; empty keeps them host-only.
	CookieDomain string `env:"COOKIE_DOMAIN"`
	// CookiePartitioned adds the attribute Partitioned.
	CookiePartitioned bool `env:"COOKIE_PARTITIONED" envDefault:"false"`
	// OIDCIssuer is the identity provider to sign in with, exactly as it calls itself; empty means none.
	OIDCIssuer string `env:"OIDC_ISSUER"`
	// OIDCClientID and OIDCClientSecret are what the provider gave this service; a public client has no secret.
	OIDCClientID         string `env:"OIDC_CLIENT_ID"`
	OIDCClientSecret     string `env:"OIDC_CLIENT_SECRET"`
	OIDCClientSecretFile string `env:"OIDC_CLIENT_SECRET_FILE"`
	// OIDCScopes are asked for, separated by spaces.
	OIDCScopes string `env:"OIDC_SCOPES" envDefault:"openid profile"`
	// OIDCUsernameClaim is the claim that new users are named after.
	OIDCUsernameClaim string `env:"OIDC_USERNAME_CLAIM" envDefault:"preferred_username"`
	// WorldAccessURL is where the system that owns the worlds answers who may come in; empty means that everybody may.
	WorldAccessURL string `env:"WORLD_ACCESS_URL"`
	// WorldAccessToken is the bearer token for it.
	WorldAccessToken     string `env:"WORLD_ACCESS_TOKEN"`
	WorldAccessTokenFile string `env:"WORLD_ACCESS_TOKEN_FILE"`
	// ReturnOrigins are the exact origins, besides the service's own paths, that a sign-in may lead back to.
	ReturnOrigins []string `env:"RETURN_ORIGINS"`
	// TrustedProxies are networks whose X-Forwarded-For is believed, as CIDRs, comma-separated.
	TrustedProxies []string `env:"TRUSTED_PROXIES"`
	// RateLimit is the number of requests a second allowed to one client; 0 means no limit.
	RateLimit float64 `env:"RATE_LIMIT" envDefault:"0"`
	// WriteRate is the number of writes of events and RSVPs a second allowed to one user after ten times as many; 0 means no limit.
	WriteRate float64 `env:"WRITE_RATE" envDefault:"10"`
	// MaxInFlight is the number of requests handled at once; more get 503.
	MaxInFlight int `env:"MAX_IN_FLIGHT" envDefault:"2048"`
	// MaxWaiting is the number of requests that wait for news of a list at once, an eighth of them of one user; more wait for none.
	MaxWaiting int `env:"MAX_WAITING" envDefault:"10000"`
	// MaxConnections is the number of clients' connections; more are closed at once. 0 means three quarters of the open files allowed.
	MaxConnections int `env:"MAX_CONNECTIONS" envDefault:"0"`
	// ListCache is how much memory lists may take that are kept for others who ask, in MiB; 0 keeps none.
	ListCache int `env:"LIST_CACHE" envDefault:"64"`
	// BrandName is what the pages call the service, 1 to 40 characters.
	BrandName string `env:"BRAND_NAME" envDefault:"worldevents"`
	// SecurityContacts are where to report a vulnerability, as URIs.
	SecurityContacts []string `env:"SECURITY_CONTACT"`
	// Docs turns on /docs, /openapi.json and /openapi.yaml.
	Docs bool `env:"DOCS" envDefault:"true"`
	// EventsPage turns on /events, where users see, edit, cancel and leave their events.
	EventsPage bool `env:"EVENTS_PAGE" envDefault:"true"`
	// LogLevel is debug, info, warn or error.
	LogLevel slog.Level `env:"LOG_LEVEL" envDefault:"info"`
	// LogFormat is json or text; the default is text in development.
	LogFormat string `env:"LOG_FORMAT"`
	// AccessLog is all, errors or 1/N: which requests without an error leave a line in the log.
	AccessLog string `env:"ACCESS_LOG" envDefault:"all"`
	// ShutdownTimeout bounds the time from SIGTERM to the end of the process.
	ShutdownTimeout time.Duration `env:"SHUTDOWN_TIMEOUT" envDefault:"10s"`

	// What the texts above mean, filled in by Load.
	Development bool           `env:"-"`
	ListenAddrs []string       `env:"-"`
	Base        *url.URL       `env:"-"`
	WorldAccess *url.URL       `env:"-"` // nil without WorldAccessURL
	Keys        [][]byte       `env:"-"`
	Proxies     []netip.Prefix `env:"-"`
	// Ed25519Keys are those of JWTPrivateKeyFile.
	Ed25519Keys Ed25519Keys `env:"-"`
	// LogEvery is the N of AccessLog: 1 for all, and 0 for errors.
	LogEvery int64 `env:"-"`
	// Warnings are what is allowed but rarely meant, one line each, for the log of a serving process.
	Warnings []string `env:"-"`
	// given is what .env and the environment say. An empty value means the default.
	given map[string]string
	// exposed are the files of settings that others can write.
	exposed []check
}

// WriteTimeout bounds the time that a response takes from the end of the request's headers on.
const WriteTimeout = 30 * time.Second

// Load reads the file .env in the working directory, if there is one, and the environment, which wins. The error names every problem at
// once and quotes no secret. needKey is false for a command that signs and verifies nothing.
func Load(needKey bool) (*Config, error) {
	c, problems := Inspect(needKey)
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return c, nil
}

// Inspect is Load that returns the problems beside what can be made of the other settings.
func Inspect(needKey bool) (*Config, []error) {
	c, problems := readSettings()
	exportLibpq(c.given)
	problems = append(problems, c.parse(needKey)...)
	if c.Base != nil {
		c.Warnings = c.warnings()
	}
	return c, problems
}

// readSettings fills in given, and returns everything that is wrong with .env.
func readSettings() (*Config, []error) {
	c := &Config{given: make(map[string]string)}
	file, problems := c.readDotEnv()
	maps.Copy(c.given, file)
	maps.Copy(c.given, env.ToMap(os.Environ()))
	return c, problems
}

// RereadLogLevel returns LOG_LEVEL as Load would find it now. The error names every problem with it and with .env.
func (c *Config) RereadLogLevel() (slog.Level, error) {
	now, problems := readSettings()
	now.given = map[string]string{"APP_ENV": c.AppEnv, "LOG_LEVEL": now.given["LOG_LEVEL"]}
	problems = append(problems, now.parse(false)...)
	return now.LogLevel, errors.Join(problems...)
}

// parse fills in the fields, and returns everything that is wrong. A setting of the wrong type gets its default, so that parse goes on.
func (c *Config) parse(needKey bool) []error {
	problems := c.readSecretFiles()
	mistyped, _ := errors.AsType[env.AggregateError](env.ParseWithOptions(c, env.Options{Environment: c.given}))
	for _, err := range mistyped.Errors {
		if one, ok := errors.AsType[env.ParseError](err); ok {
			field, _ := reflect.TypeFor[Config]().FieldByName(one.Name)
			name := field.Tag.Get("env")
			problems = append(problems, fmt.Errorf("%s: must be %s", name, typeHints[one.Type.String()]))
			delete(c.given, name)
		}
	}
	env.ParseWithOptions(c, env.Options{Environment: c.given})
	for name, field := range map[string]*string{"ADMIN_ADDR": &c.AdminAddr, "HSTS": &c.HSTS} {
		if value, ok := c.given[name]; ok {
			*field = value // empty turns these off, and leaves others their default
		}
	}
	problems = append(problems, c.validate(needKey)...)
	if !c.Development {
		problems = append(problems, failed(c.exposed)...)
	}
	return problems
}

var typeHints = map[string]string{
	"time.Duration": "a duration such as 30s or 720h",
	"int":           "a whole number",
	"float64":       "a number",
	"bool":          "true or false",
	"slog.Level":    "debug, info, warn or error",
}
