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
	// AppEnv is production or development: cookies for plain HTTP, the sign-in page, logs as text.
	AppEnv string `env:"APP_ENV" envDefault:"production"`
	// DevelopmentPublic allows development with a BASE_URL that is not local: there anybody signs in as anybody.
	DevelopmentPublic bool `env:"DEVELOPMENT_PUBLIC" envDefault:"false"`
	// ListenAddr is the public listener. The host localhost is the two loopback addresses, which development listens on while this is unset.
	ListenAddr string `env:"LISTEN_ADDR" envDefault:":8080"`
	// AdminAddr is the listener of /livez, /readyz and /metrics; set but empty turns it off.
	AdminAddr string `env:"ADMIN_ADDR" envDefault:"127.0.0.1:9090"`
	// AdminHosts are further names by which /metrics and /debug are asked for, without port, comma-separated. Addresses,
	// localhost and the host of AdminAddr always are.
	AdminHosts []string `env:"ADMIN_HOSTS"`
	// BaseURL is the public address. Its path is the cookies' Path and the prefix of every link; a proxy strips it. Unset,
	// it has in development the port of ListenAddr.
	BaseURL string `env:"BASE_URL" envDefault:"http://localhost:8080"`
	// TLS says where the certificate of ListenAddr comes from: off is plain HTTP, acme asks an authority for one, files has
	// cert.pem and key.pem.
	TLS string `env:"TLS" envDefault:"off"`
	// TLSDir is the folder of the certificate and its key.
	TLSDir string `env:"TLS_DIR" envDefault:"tls"`
	// HTTPAddr is a listener that redirects plain HTTP to BaseURL, and serves HTTP-01 challenges; empty means none.
	HTTPAddr string `env:"HTTP_ADDR"`
	// ACMEDirectory is the directory of the authority (RFC 8555 section 7.1.1); empty means Let's Encrypt.
	ACMEDirectory string `env:"ACME_DIRECTORY"`
	// HSTS is the header Strict-Transport-Security, which development never sends; set but empty means none.
	HSTS string `env:"HSTS" envDefault:"max-age=31536000; includeSubDomains"`
	// DatabaseURL is sqlite:PATH or postgres://…
	DatabaseURL string `env:"DATABASE_URL" envDefault:"sqlite:worldevents.db"`
	// DatabaseURLFile, JWTSecretFile and OIDCClientSecretFile are files that say what the setting of the same name would; Load
	// fills that in.
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
	// RefreshReuseLeeway is how long a refresh token that was just replaced may come back without harm. Unset, it is no
	// longer than RefreshTokenTTL.
	RefreshReuseLeeway time.Duration `env:"REFRESH_REUSE_LEEWAY" envDefault:"60s"`
	// SessionsPerUser is how many sessions a user may have.
	SessionsPerUser int `env:"SESSIONS_PER_USER" envDefault:"1"`
	// SessionMaxAge is the lifetime of a session, however often it is refreshed; 0 means no limit. With OIDCIssuer the default is
	// 720 hours.
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
	// ReturnOrigins are the exact origins, besides the service's own paths, that a sign-in may lead back to.
	ReturnOrigins []string `env:"RETURN_ORIGINS"`
	// TrustedProxies are networks whose X-Forwarded-For is believed, as CIDRs, comma-separated.
	TrustedProxies []string `env:"TRUSTED_PROXIES"`
	// RateLimit is the number of requests a second allowed to one client; 0 means no limit.
	RateLimit float64 `env:"RATE_LIMIT" envDefault:"0"`
	// WriteRate is the number of creates, joins, leaves and changes on /events a second allowed to one user, after a burst of ten times as many; 0 means no
	// limit.
	WriteRate float64 `env:"WRITE_RATE" envDefault:"10"`
	// MaxInFlight is the number of requests handled at once; more get 503.
	MaxInFlight int `env:"MAX_IN_FLIGHT" envDefault:"2048"`
	// MaxWaiting is the number of requests that wait for news of a list at once, an eighth of them of one user; more get
	// their response at once.
	MaxWaiting int `env:"MAX_WAITING" envDefault:"10000"`
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
	Keys        [][]byte       `env:"-"`
	Proxies     []netip.Prefix `env:"-"`
	// Ed25519Keys are those of JWTPrivateKeyFile.
	Ed25519Keys Ed25519Keys `env:"-"`
	// LogEvery is the N of AccessLog: 1 for all, and 0 for errors.
	LogEvery int64 `env:"-"`
	// Warnings are what is allowed but rarely meant, one line each, for the log of a serving process.
	Warnings []string `env:"-"`
	// given are the settings that are not empty; all others have their defaults.
	given map[string]string
	// exposed says which files of settings others can write.
	exposed []string
}

// WriteTimeout bounds the time that a response takes from the end of the request's headers on.
const WriteTimeout = 30 * time.Second

// Load reads the file .env in the working directory, if there is one, and the environment, which wins. The error
// names every problem at once and quotes no secret. A command that signs or verifies nothing needs no key.
func Load(needKey bool) (*Config, error) {
	c, problems := Inspect(needKey)
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return c, nil
}

// Inspect is Load that returns every problem by itself, and what can be made of the other settings.
func Inspect(needKey bool) (*Config, []error) {
	values, exposed, problems := readSettings()
	exportLibpq(values)
	c, more := parse(values, exposed, needKey)
	if c.Base != nil {
		c.Warnings = c.warnings()
	}
	return c, append(problems, more...)
}

// readSettings returns what the environment and the file .env say. exposed and problems are those of readDotEnv.
func readSettings() (values map[string]string, exposed []string, problems []error) {
	values = make(map[string]string)
	file, exposed, problems := readDotEnv()
	maps.Copy(values, file)
	maps.Copy(values, env.ToMap(os.Environ()))
	return values, exposed, problems
}

// RereadLogLevel returns LOG_LEVEL as Load would find it now. The error names every problem with that setting and with the
// file .env at once.
func (c *Config) RereadLogLevel() (slog.Level, error) {
	values, exposed, problems := readSettings()
	now, more := parse(map[string]string{"APP_ENV": c.AppEnv, "LOG_LEVEL": values["LOG_LEVEL"]}, exposed, false)
	return now.LogLevel, errors.Join(append(problems, more...)...)
}

// parse returns what can be made of values, and everything that is wrong with them. exposed says which files that they come
// from others can write.
func parse(values map[string]string, exposed []string, needKey bool) (*Config, []error) {
	c := new(Config)
	admin, adminSet := values["ADMIN_ADDR"]
	hsts, hstsSet := values["HSTS"]
	maps.DeleteFunc(values, func(_, value string) bool { return value == "" }) // empty is unset
	more, problems := readSecretFiles(values)
	exposed = append(exposed, more...)
	mistyped, _ := errors.AsType[env.AggregateError](env.ParseWithOptions(c, env.Options{Environment: values}))
	for _, err := range mistyped.Errors {
		if one, ok := errors.AsType[env.ParseError](err); ok {
			field, _ := reflect.TypeFor[Config]().FieldByName(one.Name)
			name := field.Tag.Get("env")
			problems = append(problems, fmt.Errorf("%s: must be %s", name, typeHints[one.Type.String()]))
			delete(values, name)
		}
	}
	if len(problems) > 0 { // read again with defaults in their place, to find what else is wrong
		*c = Config{}
		env.ParseWithOptions(c, env.Options{Environment: values})
	}
	if adminSet {
		c.AdminAddr = admin // but here empty means off
	}
	if hstsSet {
		c.HSTS = hsts // and here, too
	}
	c.given, c.exposed = values, exposed
	problems = append(problems, c.validate(needKey)...)
	for _, file := range c.exposed {
		if !c.Development {
			problems = append(problems, errors.New(file))
		}
	}
	return c, problems
}

// typeHints says what a value of a type looks like.
var typeHints = map[string]string{
	"time.Duration": "a duration such as 30s or 720h",
	"int":           "a whole number",
	"float64":       "a number",
	"bool":          "true or false",
	"slog.Level":    "debug, info, warn or error",
}
