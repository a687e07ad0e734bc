package config_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"worldevents/config"
	"worldevents/tests/servicetest"
)

// key is a good key, and hidden what no message may show.
const (
	key    = "1f0e9d8c7b6a59483726150493a2b1c0d1e2f3041526374859607182a3b4c5d6"
	hidden = "hunter2-hunter2-hunter2"
)

// refuses fails the test unless the settings are refused in these words.
func refuses(t *testing.T, settings, says string) {
	t.Helper()
	_, err := config.Load(true)
	servicetest.Is(t, fmt.Sprint(err), says, "%.300q", settings)
}

// setEnv makes these variables, in lines of NAME=value, the whole environment until the test ends. Later ones win. CI stays, which
// says whether tests may be skipped.
func setEnv(t *testing.T, env ...string) {
	t.Helper()
	before := os.Environ()
	t.Cleanup(func() { replaceEnv(before) })
	replaceEnv(strings.Split(strings.Join(append(env, "CI="+os.Getenv("CI")), "\n"), "\n"))
}

func replaceEnv(pairs []string) {
	os.Clearenv() // t.Setenv takes a second for all tables: what is unset there still takes a place
	for _, pair := range pairs {
		if name, value, ok := strings.Cut(pair, "="); ok {
			os.Setenv(name, value)
		}
	}
}

// give makes a file another user's, which only root can.
func give(t *testing.T, path string, user int) {
	t.Helper()
	if os.Geteuid() != 0 {
		servicetest.Missing(t, "needs root")
	}
	servicetest.NoError(t, os.Chown(path, user, -1))
}

// development is where any setting is by itself; production has what it is not to be warned of.
const (
	development = "APP_ENV=development\nJWT_SECRET=" + key
	production  = "APP_ENV=production\nJWT_SECRET=" + key + "\nBASE_URL=https://example.org\nDATABASE_URL=postgres://db.example.org/we\n" +
		"OIDC_ISSUER=https://login.example.org\nOIDC_CLIENT_ID=worldevents"
)

// mustLoad is config.Load of settings that are allowed.
func mustLoad(t *testing.T, env ...string) *config.Config {
	t.Helper()
	setEnv(t, env...)
	return servicetest.Must(config.Load(true))(t)
}

// everySlash8 is all of IPv4 in small pieces.
func everySlash8() string {
	var networks []string
	for i := range 256 {
		networks = append(networks, fmt.Sprintf("%d.0.0.0/8", i))
	}
	return strings.Join(networks, ",")
}

// Ends of messages that follow what they quote.
const (
	exactOrigin = " must be an exact origin as browsers send it, such as https://app.example.org: scheme, host and, unless it is the usual one, port, in lower case"
	noContact   = " must be a URI such as mailto:security@example.org, https://example.org/report or tel:+1-201-555-0123"
	overTLS     = " must be https in production, except on localhost"
	network     = " must be a network such as 10.0.0.0/8"
	public      = "APP_ENV=production\n"
	acme        = public + "TLS=acme\nBASE_URL=https://"
)

// Each message, all of it, and the settings that are refused with it and no other. They stand beside development's unless
// they say otherwise.
var refused = []struct {
	says     string
	settings []string
}{
	{"APP_ENV: must be production or development", []string{"APP_ENV=dev", "APP_ENV=Production"}},
	{"LISTEN_ADDR: must be host:port or :port", []string{"LISTEN_ADDR=8080", "LISTEN_ADDR=::1:80"}},
	{"LISTEN_ADDR: must end with a port, 0 to 65535", []string{"LISTEN_ADDR=:65536", "LISTEN_ADDR=:eighty", "LISTEN_ADDR=:-1"}},
	{"ADMIN_ADDR: must be host:port, :port or empty, with a port of 0 to 65535", []string{"ADMIN_ADDR=localhost", "ADMIN_ADDR=:99999", "ADMIN_ADDR=127.0.0.1:-1"}},
	{`ADMIN_HOSTS: "metrics.internal:9090" must be a host name without port`, []string{"ADMIN_HOSTS=metrics.internal:9090", "ADMIN_HOSTS=a.internal,metrics.internal:9090"}},
	{"BASE_URL: must be an http or https address without a query", []string{
		"BASE_URL=example.org", "BASE_URL=ftp://example.org", "BASE_URL=https://example.org/?x", "BASE_URL=https://example.org/#x", "BASE_URL=https:example.org",
		"BASE_URL=https://", "BASE_URL=https://u:" + hidden + "@x.org", "BASE_URL=https://example.org/a;b", "BASE_URL=https://example.org/a b", "BASE_URL=https://x.org/%zz",
	}},
	{"BASE_URL: must be on localhost in development, where anybody signs in as anybody, unless DEVELOPMENT_PUBLIC=true", []string{
		"BASE_URL=https://example.org", "BASE_URL=http://192.168.1.5:8080", "BASE_URL=http://0.0.0.0:8080", "BASE_URL=http://localhost.example.org",
		"BASE_URL=http://127.0.0.1.example.org", "BASE_URL=http://notlocalhost", "BASE_URL=https://example.org\nDEVELOPMENT_PUBLIC=false",
	}},
	{"DEVELOPMENT_PUBLIC: must be true or false", []string{"DEVELOPMENT_PUBLIC=yes"}},
	{"DATABASE_URL: must begin with sqlite: or postgres://", []string{
		"DATABASE_URL=mysql://u:" + hidden + "@x/db", "DATABASE_URL=worldevents.db", "DATABASE_URL=SQLite:x.db",
	}},
	{"DATABASE_URL: sqlite: needs the path of a file", []string{"DATABASE_URL=sqlite:", "DATABASE_URL=sqlite::memory:"}},
	{"DB_MAX_CONNS: must be from 1 to 10000", []string{"DB_MAX_CONNS=0", "DB_MAX_CONNS=10001", "DB_MAX_CONNS=1000000"}},
	{"DB_MAX_CONNS: must be a whole number", []string{"DB_MAX_CONNS=many"}},
	{"DB_TIMEOUT: must be from 1ms to 30s, when the server gives a response up", []string{
		"DB_TIMEOUT=0", "DB_TIMEOUT=-1s", "DB_TIMEOUT=999us", "DB_TIMEOUT=30.001s",
	}},
	{"DB_TIMEOUT: must be a duration such as 30s or 720h", []string{"DB_TIMEOUT=2"}},
	{"JWT_SECRET: is required: 32 bytes or more, such as the output of: openssl rand -hex 32", []string{"JWT_SECRET="}},
	{"JWT_SECRET: key 1 is shorter than 32 bytes", []string{"JWT_SECRET=" + hidden, "JWT_SECRET=" + strings.Repeat("x", 31)}},
	{"JWT_SECRET: key 2 is shorter than 32 bytes", []string{
		"JWT_SECRET=" + key + ",", "JWT_SECRET=" + key + "," + hidden,
		"JWT_SECRET=" + key + ", " + key[:31] + " ", // blanks are no part of a key
	}},
	{"JWT_SECRET: key 1 is a known example", []string{
		"JWT_SECRET=your-256-bit-secret-your-256-bit-secret", "JWT_SECRET=a-string-secret-at-least-256-bits-long", "JWT_SECRET=CHANGEME-CHANGEME-CHANGEME-CHANGEME",
	}},
	{"JWT_SECRET: key 1 is shorter than 32 bytes\nJWT_SECRET: key 1 is a known example", []string{"JWT_SECRET=change-me"}},
	{"JWT_SECRET: key 1 is one character again and again", []string{
		"JWT_SECRET=" + strings.Repeat("x", 32), "JWT_SECRET=" + strings.Repeat("\U0001F511", 8), "JWT_SECRET=" + strings.Repeat("\xff", 32),
	}},
	{"JWT_SECRET: key 2 is one character again and again", []string{"JWT_SECRET=" + key + "," + strings.Repeat("x", 64)}},
	{"JWT_SECRET: key 2 is key 1 again", []string{"JWT_SECRET=" + hidden + hidden + ", " + hidden + hidden}},
	{"JWT_SECRET: key 3 is key 1 again", []string{"JWT_SECRET=" + key + ",A" + hidden + hidden + "," + key}},
	{"JWT_TTL: must be from 1s to 15m", []string{"JWT_TTL=0", "JWT_TTL=999ms", "JWT_TTL=15m0.001s", "JWT_TTL=-1s", public + "JWT_TTL=16m"}},
	{"JWT_TTL: must be 15m in production: only development may shorten it", []string{public + "JWT_TTL=14m59s"}},
	{"JWT_TTL: must be a duration such as 30s or 720h", []string{"JWT_TTL=900"}},
	{"REFRESH_TOKEN_TTL: must be from 1s to 9600h, the longest that browsers keep a cookie", []string{
		"REFRESH_TOKEN_TTL=0", "REFRESH_TOKEN_TTL=999ms", "REFRESH_TOKEN_TTL=9600h0.001s", "REFRESH_TOKEN_TTL=0\nREFRESH_REUSE_LEEWAY=60s",
	}},
	{"REFRESH_TOKEN_TTL: must be a duration such as 30s or 720h", []string{"REFRESH_TOKEN_TTL=30d"}},
	{"REFRESH_REUSE_LEEWAY: must be more than 0, at most 10m and at most REFRESH_TOKEN_TTL", []string{
		"REFRESH_REUSE_LEEWAY=-1s", "REFRESH_REUSE_LEEWAY=0", "REFRESH_REUSE_LEEWAY=10m0.001s", "REFRESH_TOKEN_TTL=30s\nREFRESH_REUSE_LEEWAY=30.001s",
	}},
	{"REFRESH_REUSE_LEEWAY: must be a duration such as 30s or 720h", []string{"REFRESH_REUSE_LEEWAY=60"}},
	{"SESSIONS_PER_USER: must be from 1 to 100", []string{"SESSIONS_PER_USER=0", "SESSIONS_PER_USER=101", "SESSIONS_PER_USER=-1"}},
	{"SESSIONS_PER_USER: must be a whole number", []string{"SESSIONS_PER_USER=1.5"}},
	{"SESSION_MAX_AGE: must be 0, which means no limit, or 1s or more", []string{"SESSION_MAX_AGE=-1s", "SESSION_MAX_AGE=999ms"}},
	{"SESSION_MAX_AGE: must be a duration such as 30s or 720h", []string{"SESSION_MAX_AGE=30d"}},
	{`ALLOWED_ORIGINS: "*"` + exactOrigin, []string{"ALLOWED_ORIGINS=*", "ALLOWED_ORIGINS=https://a.example,*"}},
	{"BRAND_NAME: must be 1 to 40 characters that can be seen, or spaces between them", []string{
		"BRAND_NAME=" + strings.Repeat("\u00e9", 41), "BRAND_NAME=a\tb", "BRAND_NAME=\u202eb", "BRAND_NAME=   ", "BRAND_NAME=\xff",
	}},
	{`SECURITY_CONTACT: "security@example.org"` + noContact, []string{"SECURITY_CONTACT=security@example.org", "SECURITY_CONTACT=mailto:a@example.org,security@example.org"}},
	{`ALLOWED_ORIGINS: "http://10.0.0.1"` + overTLS, []string{public + "ALLOWED_ORIGINS=https://app.example.org,http://10.0.0.1"}},

	{"COOKIE_DOMAIN: must be the host of BASE_URL or a domain above it, or browsers refuse the cookies", []string{
		"COOKIE_DOMAIN=example.org", "COOKIE_DOMAIN=localhost; Secure", public + "BASE_URL=https://example.org.\nCOOKIE_DOMAIN=.",
		public + "BASE_URL=https://notexample.org\nCOOKIE_DOMAIN=example.org", public + "BASE_URL=https://192.0.2.1\nCOOKIE_DOMAIN=192.0.2.1",
	}},
	// Public suffixes: of ICANN, private ones, those of a wildcard, and names that no list has.
	{"COOKIE_DOMAIN: is a public suffix, below which anybody may have a host: browsers refuse the cookies", []string{
		public + "BASE_URL=https://example.co.uk\nCOOKIE_DOMAIN=co.uk", public + "BASE_URL=https://example.org\nCOOKIE_DOMAIN=org",
		public + "BASE_URL=https://EXAMPLE.CO.UK\nCOOKIE_DOMAIN=CO.UK", public + "BASE_URL=https://example.co.uk.\nCOOKIE_DOMAIN=co.uk.",
		public + "BASE_URL=https://we.github.io\nCOOKIE_DOMAIN=github.io", public + "BASE_URL=https://we.github.io\nCOOKIE_DOMAIN=.github.io",
		public + "BASE_URL=https://github.io\nCOOKIE_DOMAIN=github.io", public + "BASE_URL=https://a.b.kawasaki.jp\nCOOKIE_DOMAIN=b.kawasaki.jp",
		public + "BASE_URL=https://we.internal\nCOOKIE_DOMAIN=internal", "BASE_URL=http://we.localhost:8080\nCOOKIE_DOMAIN=localhost",
	}},
	{"COOKIE_PARTITIONED: needs Secure cookies, which APP_ENV=development does not set", []string{"COOKIE_PARTITIONED=true"}},
	{"COOKIE_PARTITIONED: must be true or false", []string{"COOKIE_PARTITIONED=maybe"}},

	{"TLS: must be off, acme or files", []string{"TLS=on", "TLS=FILES"}},
	{"TLS_DIR: must be a folder that others cannot write: chmod 700", []string{acme + "example.org\nTLS_DIR=/tmp", acme + "example.org\nTLS_DIR=/dev/null"}},
	{"HTTP_ADDR: needs TLS=acme or TLS=files, since it redirects to the public listener", []string{"HTTP_ADDR=:0"}},
	{"HTTP_ADDR: must be host:port, :port or empty", []string{acme + "example.org\nHTTP_ADDR=80"}},
	{"HTTP_ADDR: must end with a port, 0 to 65535", []string{acme + "example.org\nHTTP_ADDR=:http2", acme + "example.org\nHTTP_ADDR=:65536"}},
	{"BASE_URL: must be https with TLS=files", []string{
		public + "TLS=files", "TLS=files\nBASE_URL=http://localhost:8080", public + "TLS=files\nBASE_URL=http://example.org",
	}},
	{"BASE_URL: must be https with TLS=acme", []string{public + "TLS=acme\nBASE_URL=http://example.org"}},
	{"BASE_URL: must have the full DNS name of a host with TLS=acme, such as https://api.example.org: no other gets a certificate", []string{
		"TLS=acme", acme + "192.0.2.1", acme + "[2001:db8::1]", acme + "localhost", acme + "we.localhost", acme + "intranet", acme + "example.org.",
		acme + "we_are.example.org", acme + "b\u00fccher.example", acme + "1.2.3", acme + "example.123", acme + "-a.example.org", acme + "a-.example.org",
		acme + strings.Repeat("a", 64) + ".example", acme + strings.Repeat("a.", 124) + "group1", // 64 letters in a label, 254 in all
	}},
	{"ACME_DIRECTORY: must be an https address", []string{
		acme + "example.org\nACME_DIRECTORY=http://ca.example", acme + "example.org\nACME_DIRECTORY=ca.example", acme + "example.org\nACME_DIRECTORY=https://u:" + hidden + "@ca.example",
	}},
	{"HSTS: must be max-age=SECONDS, and perhaps ; includeSubDomains and ; preload, or empty", []string{
		"HSTS=31536000", "HSTS=includeSubDomains", "HSTS=max-age=", "HSTS=max-age=1y", "HSTS=max-age=12345678901", "HSTS=max-age=1, includeSubDomains", "HSTS=max-age=1; includeSubDomains; x",
	}},

	{"OIDC_ISSUER: is required with OIDC_CLIENT_ID and OIDC_CLIENT_SECRET", []string{"OIDC_CLIENT_ID=x", "OIDC_CLIENT_SECRET=" + hidden}},
	{"OIDC_CLIENT_ID: is required with OIDC_ISSUER", []string{"OIDC_ISSUER=https://login.example.org"}},
	{"OIDC_ISSUER: must be https in production, except on localhost", []string{
		production + "\nOIDC_ISSUER=http://login.example.org", production + "\nOIDC_ISSUER=http://localhost.example.org", production + "\nOIDC_ISSUER=http://login.localhost",
	}},
	{"OIDC_ISSUER: must be an https address without a query", []string{
		production + "\nOIDC_ISSUER=login.example.org", production + "\nOIDC_ISSUER=https://login.example.org?tenant=1",
		production + "\nOIDC_ISSUER=https://login.example.org#x", production + "\nOIDC_ISSUER=https://me:" + hidden + "@login.example.org",
	}},
	{"OIDC_SCOPES: must name openid, and what else to ask for, separated by spaces", []string{production + "\nOIDC_SCOPES=profile email", production + "\nOIDC_SCOPES=openid,email"}},

	{"WORLD_ACCESS_URL: must be an http or https address without a user: the token is WORLD_ACCESS_TOKEN", []string{
		"WORLD_ACCESS_URL=https://me:" + hidden + "@worlds.example.org", "WORLD_ACCESS_URL=https://worlds.example.org/?x#y",
		"WORLD_ACCESS_URL=worlds.example.org", "WORLD_ACCESS_URL=ftp://worlds.example.org", "WORLD_ACCESS_URL=https://", "WORLD_ACCESS_URL=https://worlds.example.org/#x", "WORLD_ACCESS_URL=https://x.org/%zz",
	}},
	{"WORLD_ACCESS_TOKEN: has no use without WORLD_ACCESS_URL", []string{"WORLD_ACCESS_TOKEN=" + hidden}},
	{"WORLD_ACCESS_TOKEN: must be a bearer token: letters, digits and -._~+/, and perhaps = at its end", []string{
		"WORLD_ACCESS_URL=https://worlds.example.org\nWORLD_ACCESS_TOKEN=" + hidden + " x", "WORLD_ACCESS_URL=https://worlds.example.org\nWORLD_ACCESS_TOKEN=Bearer " + hidden,
	}},

	{"TRUSTED_PROXIES: trusts a sixteenth of all addresses or more, so that clients choose the address they come from: list the networks of the proxies", []string{
		"TRUSTED_PROXIES=16.0.0.0/4", "TRUSTED_PROXIES=16.0.0.0/5,24.0.0.0/5", "TRUSTED_PROXIES=10.0.0.0/8,0.0.0.0/2,64.0.0.0/2", "TRUSTED_PROXIES=0.0.0.0/0",
		"TRUSTED_PROXIES=0.0.0.0/1,128.0.0.0/1", "TRUSTED_PROXIES=" + everySlash8(), "TRUSTED_PROXIES=2000::/4", "TRUSTED_PROXIES=2000::/5,2800::/5", "TRUSTED_PROXIES=2000::/3",
		"TRUSTED_PROXIES=::/1,8000::/1", "TRUSTED_PROXIES=::/0",
	}},

	{"RATE_LIMIT: must be 0 or more", []string{"RATE_LIMIT=-1", "RATE_LIMIT=NaN", "RATE_LIMIT=+Inf", "RATE_LIMIT=1000000001"}},
	{"RATE_LIMIT: must be a number", []string{"RATE_LIMIT=fast"}},
	{"WRITE_RATE: must be 0 or more", []string{"WRITE_RATE=-1", "WRITE_RATE=NaN", "WRITE_RATE=+Inf", "WRITE_RATE=1000000001"}},
	{"MAX_IN_FLIGHT: must be 1 or more", []string{"MAX_IN_FLIGHT=0"}},
	{"MAX_WAITING: must be 0 or more", []string{"MAX_WAITING=-1"}},
	{"MAX_CONNECTIONS: must be 0 or more", []string{"MAX_CONNECTIONS=-1"}},
	{"LIST_CACHE: must be from 0 to 65536", []string{"LIST_CACHE=-1", "LIST_CACHE=65537"}},
	{"DOCS: must be true or false", []string{"DOCS=perhaps"}},
	{"LOG_LEVEL: must be debug, info, warn or error", []string{"LOG_LEVEL=loud"}},
	{"LOG_FORMAT: must be json or text", []string{"LOG_FORMAT=xml"}},
	{"ACCESS_LOG: must be all, errors, or 1/N for one request in N, such as 1/100", []string{
		"ACCESS_LOG=none", "ACCESS_LOG=ALL", "ACCESS_LOG=10", "ACCESS_LOG=1/", "ACCESS_LOG=1/0", "ACCESS_LOG=1/-3", "ACCESS_LOG=1/2.5", "ACCESS_LOG=2/3", "ACCESS_LOG=1/99999999999",
	}},
	{"SHUTDOWN_TIMEOUT: must be more than 0", []string{"SHUTDOWN_TIMEOUT=0", "SHUTDOWN_TIMEOUT=-1s"}},
	{"SHUTDOWN_TIMEOUT: must be a duration such as 30s or 720h", []string{"SHUTDOWN_TIMEOUT=soon"}},

	// Several at once: what is not of its type first, then what is out of its bounds. Neither hides another.
	{strings.Join([]string{
		"DB_MAX_CONNS: must be a whole number", "DOCS: must be true or false", "APP_ENV: must be production or development",
		"BASE_URL: must be an http or https address without a query", "DB_TIMEOUT: must be from 1ms to 30s, when the server gives a response up",
		"JWT_SECRET: key 1 is shorter than 32 bytes", `ALLOWED_ORIGINS: "*"` + exactOrigin, "RATE_LIMIT: must be 0 or more", "LOG_FORMAT: must be json or text",
	}, "\n"), []string{
		"APP_ENV=x\nDB_MAX_CONNS=x\nDB_TIMEOUT=0\nJWT_SECRET=" + hidden + "\nALLOWED_ORIGINS=*\nDOCS=x\nLOG_FORMAT=xml\nBASE_URL=x\nRATE_LIMIT=-1",
	}},
	{strings.Join([]string{
		"APP_ENV: must be production or development", "LISTEN_ADDR: must be host:port or :port", "ADMIN_ADDR: must be host:port, :port or empty, with a port of 0 to 65535",
		"DATABASE_URL: must begin with sqlite: or postgres://", "REFRESH_TOKEN_TTL: must be from 1s to 9600h, the longest that browsers keep a cookie",
		"REFRESH_REUSE_LEEWAY: must be more than 0, at most 10m and at most REFRESH_TOKEN_TTL", `TRUSTED_PROXIES: "x"` + network, "MAX_IN_FLIGHT: must be 1 or more", "SHUTDOWN_TIMEOUT: must be more than 0",
	}, "\n"), []string{
		"APP_ENV=x\nLISTEN_ADDR=x\nADMIN_ADDR=x\nDATABASE_URL=x\nREFRESH_TOKEN_TTL=0\nREFRESH_REUSE_LEEWAY=0\nCOOKIE_PARTITIONED=true\nTRUSTED_PROXIES=x\nMAX_IN_FLIGHT=0\nSHUTDOWN_TIMEOUT=0",
	}},
	{strings.Join([]string{
		"HSTS: must be max-age=SECONDS, and perhaps ; includeSubDomains and ; preload, or empty", "HTTP_ADDR: must be host:port, :port or empty",
		"ACME_DIRECTORY: must be an https address", "BASE_URL: must be https with TLS=acme",
	}, "\n"), []string{public + "TLS=acme\nBASE_URL=http://example.org\nHTTP_ADDR=80\nACME_DIRECTORY=ca\nHSTS=x"}},
	{"JWT_SECRET_FILE: is set together with JWT_SECRET, in the environment or in .env: one of them must be empty\nJWT_SECRET: key 1 is shorter than 32 bytes", []string{
		"JWT_SECRET=short\nJWT_SECRET_FILE=key",
	}},
	{"RETURN_ORIGINS: \"app\"" + exactOrigin + "\nOIDC_ISSUER: must be an https address without a query\nOIDC_CLIENT_ID: is required with OIDC_ISSUER", []string{
		production + "\nOIDC_ISSUER=x\nOIDC_CLIENT_ID=\nRETURN_ORIGINS=app",
	}},
}

// Each of these values is refused, and quoted before the rule.
var quoted = []struct {
	env, setting, rule string
	values             []string
}{
	{"", "ADMIN_HOSTS", " must be a host name without port", []string{"http://x", "*"}},
	{"", "SECURITY_CONTACT", noContact, []string{"http://example.org", "https:"}},
	{"", "TRUSTED_PROXIES", network, []string{"10.0.0.1", "10.0.0.0/33", "::ffff:10.0.0.0/104"}}, // the last is IPv4 in the spelling of IPv6
	// Browsers send origins in lower case, without a path and without the usual port: no other could match.
	{"", "ALLOWED_ORIGINS", exactOrigin, []string{
		"null", "https://*.example.org", "https://a.example/", "https://a.example/path", "a.example", "https://A.example", "https://a.example:443", "https://a.example:",
		"http://a.example:80", "tauri://localhost/", "tauri://*", "tauri:localhost", "Tauri://localhost", "app://u@x", "file://host",
	}},
	{"", "RETURN_ORIGINS", exactOrigin, []string{"tauri://localhost", "javascript://x", "https://app.example.org/"}},
	// In production the pages that act as the user come over TLS.
	{public, "ALLOWED_ORIGINS", overTLS, []string{"http://app.example.org", "http://localhost.example.org"}},
	{public, "RETURN_ORIGINS", overTLS, []string{"http://app.example.org"}},
}

// What is unsafe or senseless is refused.
func TestRefused(t *testing.T) {
	for _, test := range refused {
		for _, settings := range test.settings {
			setEnv(t, development, settings)
			refuses(t, settings, test.says)
		}
	}
	for _, test := range quoted {
		for _, value := range test.values {
			setEnv(t, development, test.env, test.setting+"="+value)
			refuses(t, value, fmt.Sprintf("%s: %q%s", test.setting, value, test.rule))
		}
	}
}

// The limits themselves are allowed.
func TestAllowed(t *testing.T) {
	for _, settings := range []string{
		"LISTEN_ADDR=:65535", "ADMIN_ADDR=", "DB_MAX_CONNS=1", "DB_MAX_CONNS=10000", "DB_TIMEOUT=1ms", "DB_TIMEOUT=30s", "DATABASE_URL=postgresql://db/we",
		"JWT_SECRET=" + strings.Repeat("x", 31) + "y", "JWT_SECRET=" + key + " ,\t" + key[:32], "JWT_SECRET=" + strings.Repeat("\xc3\xff\x80\xfe", 8), // which is not UTF-8
		"JWT_TTL=1s", "JWT_TTL=15m", public + "JWT_TTL=900s", "REFRESH_TOKEN_TTL=1s", "REFRESH_TOKEN_TTL=9600h",
		"REFRESH_REUSE_LEEWAY=1ns", "REFRESH_REUSE_LEEWAY=10m", "REFRESH_TOKEN_TTL=30s\nREFRESH_REUSE_LEEWAY=30s",
		"SESSIONS_PER_USER=1", "SESSIONS_PER_USER=100", "SESSION_MAX_AGE=0", "SESSION_MAX_AGE=1s", "SESSION_MAX_AGE=1h\nREFRESH_TOKEN_TTL=720h",
		"BASE_URL=http://app.localhost:3000", "BASE_URL=http://LOCALHOST:3000", "BASE_URL=http://127.1.2.3", "BASE_URL=https://[::1]:3000/path", "BASE_URL=https://example.org\nDEVELOPMENT_PUBLIC=true",
		"COOKIE_DOMAIN=localhost", // the very host: browsers take it
		public + "BASE_URL=https://api.example.co.uk\nCOOKIE_DOMAIN=example.co.uk", public + "BASE_URL=https://api.we.github.io\nCOOKIE_DOMAIN=.we.github.io",
		public + "BASE_URL=https://api.we.internal\nCOOKIE_DOMAIN=we.internal", public + "BASE_URL=https://we.internal\nCOOKIE_DOMAIN=we.internal",
		public + "BASE_URL=https://example.org\nCOOKIE_PARTITIONED=true",
		"TRUSTED_PROXIES=10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,100.64.0.0/10,127.0.0.0/8,fc00::/7,fe80::/10,::1/128",
		"TRUSTED_PROXIES=16.0.0.0/5,2000::/5,24.0.0.0/6", // each family by itself
		"ALLOWED_ORIGINS=http://app.example.org\nRETURN_ORIGINS=http://app.example.org", public + "ALLOWED_ORIGINS=https://app.example.org:8443,http://app.localhost,http://[::1]:3000,http://a.localhost:443",
		"BRAND_NAME=x", "BRAND_NAME=" + strings.Repeat("\u00e9", 40), "BRAND_NAME=The Gathering <of> Worlds & Friends",
		"SECURITY_CONTACT=mailto:security@example.org,https://example.org/report,tel:+1-201-555-0123",
		public + "RETURN_ORIGINS=https://app.example.org,http://localhost:5173,http://127.0.0.1:3000",
		production, production + "\nOIDC_ISSUER=http://localhost:8081", production + "\nOIDC_ISSUER=http://127.0.0.1:8081", production + "\nOIDC_CLIENT_SECRET=x\nOIDC_SCOPES=email openid",
		"OIDC_ISSUER=http://login.example.org\nOIDC_CLIENT_ID=x", // in development
		"TLS=files", "TLS=files\nHTTP_ADDR=:0", "TLS=files\nHTTP_ADDR=:65535", acme + "EXAMPLE.org:8443/path", acme + "xn--bcher-kva.example", acme + strings.Repeat("a", 63) + ".example",
		acme + strings.Repeat("a.", 124) + "group", acme + "a1.example-2.x1", acme + "example.org\nACME_DIRECTORY=https://ca.example.org/directory",
		"HSTS=", "HSTS=max-age=0", "HSTS=max-age=1234567890", "HSTS=MAX-AGE=63072000;includeSubDomains ; preload",
		"RATE_LIMIT=0.5", "RATE_LIMIT=1000000000", "WRITE_RATE=0", "WRITE_RATE=1000000000", "MAX_IN_FLIGHT=1", "MAX_WAITING=0", "MAX_CONNECTIONS=1", "LIST_CACHE=0", "LIST_CACHE=65536", "SHUTDOWN_TIMEOUT=1ns",
	} {
		setEnv(t, development, settings)
		if _, err := config.Load(true); err != nil {
			t.Errorf("%q:\n%v", settings, err)
		}
	}
}

// What signs and verifies nothing needs no key, but a wrong one is refused there, too.
func TestKeyIsNotNeeded(t *testing.T) {
	setEnv(t, "APP_ENV=development")
	servicetest.Must(config.Load(false))(t)
	setEnv(t, "APP_ENV=development\nJWT_SECRET=short")
	_, err := config.Load(false)
	servicetest.Is(t, fmt.Sprint(err), "JWT_SECRET: key 1 is shorter than 32 bytes", "the error")
}
