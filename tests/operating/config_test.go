package operating

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"worldevents/config"
	"worldevents/tests/servicetest"
)

// The code, .env.example and the table of OPERATING.md list the same settings with the same defaults, and no page names one
// that there is not.
func TestSettingsAreDocumented(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(servicetest.Root(t), name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	inCode := map[string]string{}
	for field := range reflect.TypeFor[config.Config]().Fields() {
		if name := field.Tag.Get("env"); name != "" && name != "-" {
			inCode[name] = field.Tag.Get("envDefault")
		}
	}
	inCode["LOG_FORMAT"] = "json" // which depends on APP_ENV

	example := read(".env.example")
	_, table, _ := strings.Cut(read("OPERATING.md"), "\n## Settings\n")
	table, _, _ = strings.Cut(table, "\n## ")
	for where, found := range map[string][][]string{
		".env.example": regexp.MustCompile(`(?m)^#?([A-Z_]+)=(.*)$`).FindAllStringSubmatch(example, -1),
		"OPERATING.md": regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\| (?:`([^`]*)` )?\\|").FindAllStringSubmatch(table, -1),
	} {
		listed := map[string]string{}
		for _, m := range found {
			if _, twice := listed[m[1]]; twice {
				t.Errorf("%s lists %s twice", where, m[1])
			}
			listed[m[1]] = m[2]
		}
		if where == ".env.example" {
			listed["APP_ENV"] = inCode["APP_ENV"] // that of the example is another
		}
		if !servicetest.Equal(listed, inCode) {
			t.Errorf("%s lists\n%v, want\n%v", where, listed, inCode)
		}
	}
	if !strings.Contains(example, "\nAPP_ENV=development\n") || !strings.Contains(example, "\nJWT_SECRET=\n") {
		t.Error(".env.example must say development, and leave JWT_SECRET empty")
	}
	inCode["TEST_DATABASE_URL"], inCode["TEST_POSTGRES_BIN"] = "", ""                               // of the tests
	inCode["SSL_CERT_FILE"], inCode["RENEWED_LINEAGE"], inCode["CAP_NET_BIND_SERVICE"] = "", "", "" // of package crypto/x509, certbot and Linux
	for _, page := range []string{"README.md", "OPERATING.md", "SECURITY.md", "CHANGELOG.md", ".env.example", "gen/typescript/README.md"} {
		for _, name := range regexp.MustCompile(`\b[A-Z]+(_[A-Z]+)+\b`).FindAllString(read(page), -1) {
			if _, known := inCode[name]; !known {
				t.Errorf("%s names %s", page, name)
			}
		}
	}
}

// The defaults of the operating interface.
func TestConfigDefaults(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"APP_ENV": "production", "DEVELOPMENT_PUBLIC": "false", "LISTEN_ADDR": ":8080", "ADMIN_ADDR": "127.0.0.1:9090", "BASE_URL": "http://localhost:8080",
		"DATABASE_URL": "sqlite:worldevents.db", "DATABASE_URL_FILE": "", "DB_MAX_CONNS": "20", "DB_TIMEOUT": "2s", "JWT_SECRET": "", "JWT_SECRET_FILE": "", "JWT_ISSUER": "", "JWT_AUDIENCE": "", "JWT_TTL": "15m",
		"REFRESH_TOKEN_TTL": "720h", "REFRESH_REUSE_LEEWAY": "60s", "SESSIONS_PER_USER": "1", "SESSION_MAX_AGE": "0", "ALLOWED_ORIGINS": "", "COOKIE_DOMAIN": "", "COOKIE_PARTITIONED": "false",
		"OIDC_ISSUER": "", "OIDC_CLIENT_ID": "", "OIDC_CLIENT_SECRET": "", "OIDC_CLIENT_SECRET_FILE": "", "OIDC_SCOPES": "openid profile",
		"OIDC_USERNAME_CLAIM": "preferred_username", "RETURN_ORIGINS": "",
		"TLS": "off", "TLS_DIR": "tls", "HTTP_ADDR": "", "ACME_DIRECTORY": "", "HSTS": "max-age=31536000; includeSubDomains",
		"TRUSTED_PROXIES": "", "RATE_LIMIT": "0", "WRITE_RATE": "10", "MAX_IN_FLIGHT": "2048", "MAX_WAITING": "10000", "DOCS": "true", "LOG_LEVEL": "info", "LOG_FORMAT": "", "SHUTDOWN_TIMEOUT": "10s",
	}
	got := map[string]string{}
	for field := range reflect.TypeFor[config.Config]().Fields() {
		if name := field.Tag.Get("env"); name != "" && name != "-" {
			got[name] = field.Tag.Get("envDefault")
		}
	}
	if !servicetest.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

// everySlash8 is all of IPv4 in small pieces.
func everySlash8() string {
	var networks []string
	for i := range 256 {
		networks = append(networks, fmt.Sprintf("%d.0.0.0/8", i))
	}
	return strings.Join(networks, ",")
}

// Each unsafe or senseless setting is refused with one line that names it and shows no secret.
func TestConfigFaults(t *testing.T) {
	t.Parallel()
	const secret, public = "hunter2-hunter2-hunter2", "APP_ENV=production\n"
	p := servicetest.NewProgram(t)
	for setting, faults := range map[string][]string{
		"APP_ENV=dev":                                                           {"APP_ENV"},
		"APP_ENV=Production":                                                    {"APP_ENV"},
		"LISTEN_ADDR=8080":                                                      {"LISTEN_ADDR"},
		"LISTEN_ADDR=:65536":                                                    {"LISTEN_ADDR"},
		"LISTEN_ADDR=:eighty":                                                   {"LISTEN_ADDR"},
		"ADMIN_ADDR=localhost":                                                  {"ADMIN_ADDR"},
		"BASE_URL=example.org":                                                  {"BASE_URL"},
		"BASE_URL=ftp://example.org":                                            {"BASE_URL"},
		"BASE_URL=https://example.org/?x":                                       {"BASE_URL"},
		"BASE_URL=https://example.org/#x":                                       {"BASE_URL"},
		"BASE_URL=https://u:" + secret + "@x.org":                               {"BASE_URL"},
		"BASE_URL=https://example.org/a;b":                                      {"BASE_URL"},
		"DATABASE_URL=mysql://u:" + secret + "@x/db":                            {"DATABASE_URL"},
		"DATABASE_URL=postgres://u:" + secret + "@[x":                           {"DATABASE_URL"},
		"DATABASE_URL=postgres://u:" + secret + "@h:port/db":                    {"DATABASE_URL"},
		"DATABASE_URL=sqlite:":                                                  {"DATABASE_URL"},
		"DATABASE_URL=sqlite::memory:":                                          {"DATABASE_URL"},
		"DATABASE_URL=worldevents.db":                                           {"DATABASE_URL"},
		"DB_MAX_CONNS=0":                                                        {"DB_MAX_CONNS"},
		"DB_MAX_CONNS=many":                                                     {"DB_MAX_CONNS"},
		"DB_TIMEOUT=0":                                                          {"DB_TIMEOUT"},
		"DB_TIMEOUT=-1s":                                                        {"DB_TIMEOUT"},
		"DB_TIMEOUT=2":                                                          {"DB_TIMEOUT"},
		"DB_TIMEOUT=30001ms":                                                    {"DB_TIMEOUT"}, // the server gives a response up before
		"JWT_SECRET=":                                                           {"JWT_SECRET"},
		"JWT_SECRET=" + secret:                                                  {"JWT_SECRET"},
		"JWT_SECRET=" + strings.Repeat("x", 31):                                 {"JWT_SECRET"},
		"JWT_SECRET=" + string(servicetest.Key) + ",":                           {"JWT_SECRET"},
		"JWT_SECRET=" + string(servicetest.Key) + "," + secret:                  {"JWT_SECRET"},
		"JWT_SECRET=your-256-bit-secret-your-256-bit-secret":                    {"JWT_SECRET"},
		"JWT_SECRET=a-string-secret-at-least-256-bits-long":                     {"JWT_SECRET"},
		"JWT_SECRET=CHANGEME-CHANGEME-CHANGEME-CHANGEME":                        {"JWT_SECRET"},
		"JWT_SECRET=" + strings.Repeat("x", 32):                                 {"JWT_SECRET"},
		"JWT_SECRET=" + strings.Repeat("\U0001F511", 8):                         {"JWT_SECRET"},
		"JWT_SECRET=" + strings.Repeat("\xff", 32):                              {"JWT_SECRET"},
		"JWT_SECRET=" + secret + secret + ", " + secret + secret:                {"JWT_SECRET"}, // the blank is no part of the key
		"JWT_SECRET=" + string(servicetest.Key) + "," + strings.Repeat("x", 64): {"JWT_SECRET"},
		"JWT_SECRET=" + string(servicetest.Key) + ",A" + secret + secret + "," + string(servicetest.Key): {"JWT_SECRET"},
		"JWT_TTL=0":                                       {"JWT_TTL"},
		"JWT_TTL=999ms":                                   {"JWT_TTL"},
		"JWT_TTL=15m1s":                                   {"JWT_TTL"},
		"JWT_TTL=-1s":                                     {"JWT_TTL"},
		"JWT_TTL=900":                                     {"JWT_TTL"},
		public + "JWT_TTL=14m59s":                         {"JWT_TTL"},
		public + "JWT_TTL=16m":                            {"JWT_TTL"},
		"REFRESH_TOKEN_TTL=0":                             {"REFRESH_TOKEN_TTL"},
		"REFRESH_TOKEN_TTL=30d":                           {"REFRESH_TOKEN_TTL"},
		"REFRESH_TOKEN_TTL=9601h":                         {"REFRESH_TOKEN_TTL"},
		"REFRESH_REUSE_LEEWAY=-1s":                        {"REFRESH_REUSE_LEEWAY"},
		"REFRESH_REUSE_LEEWAY=0":                          {"REFRESH_REUSE_LEEWAY"},
		"REFRESH_REUSE_LEEWAY=10m1ms":                     {"REFRESH_REUSE_LEEWAY"},
		"REFRESH_REUSE_LEEWAY=60":                         {"REFRESH_REUSE_LEEWAY"},
		"REFRESH_TOKEN_TTL=30s\nREFRESH_REUSE_LEEWAY=31s": {"REFRESH_REUSE_LEEWAY"},
		"REFRESH_TOKEN_TTL=0\nREFRESH_REUSE_LEEWAY=0":     {"REFRESH_TOKEN_TTL", "REFRESH_REUSE_LEEWAY"},
		"REFRESH_TOKEN_TTL=0\nREFRESH_REUSE_LEEWAY=60s":   {"REFRESH_TOKEN_TTL"},
		"SESSIONS_PER_USER=0":                             {"SESSIONS_PER_USER"},
		"SESSIONS_PER_USER=101":                           {"SESSIONS_PER_USER"},
		"SESSIONS_PER_USER=-1":                            {"SESSIONS_PER_USER"},
		"SESSIONS_PER_USER=1.5":                           {"SESSIONS_PER_USER"},
		"SESSION_MAX_AGE=-1s":                             {"SESSION_MAX_AGE"},
		"SESSION_MAX_AGE=999ms":                           {"SESSION_MAX_AGE"},
		"SESSION_MAX_AGE=30d":                             {"SESSION_MAX_AGE"},
		"ALLOWED_ORIGINS=*":                               {"ALLOWED_ORIGINS"},
		"ALLOWED_ORIGINS=null":                            {"ALLOWED_ORIGINS"},
		"ALLOWED_ORIGINS=https://*.example.org":           {"ALLOWED_ORIGINS"},
		"ALLOWED_ORIGINS=https://a.example,*":             {"ALLOWED_ORIGINS"},
		"ALLOWED_ORIGINS=https://a.example/":              {"ALLOWED_ORIGINS"},
		"ALLOWED_ORIGINS=https://a.example/path":          {"ALLOWED_ORIGINS"},
		"ALLOWED_ORIGINS=a.example":                       {"ALLOWED_ORIGINS"},
		"ALLOWED_ORIGINS=https://A.example":               {"ALLOWED_ORIGINS"}, // browsers send lower case: it could never match
		"ALLOWED_ORIGINS=https://a.example:443":           {"ALLOWED_ORIGINS"}, // nor does the default port
		"COOKIE_DOMAIN=example.org":                       {"COOKIE_DOMAIN"},   // BASE_URL is localhost
		"COOKIE_DOMAIN=localhost; Secure":                 {"COOKIE_DOMAIN"},
		// Public suffixes: of ICANN, private ones, those of a wildcard, and names that no list has.
		public + "BASE_URL=https://example.co.uk\nCOOKIE_DOMAIN=co.uk":           {"COOKIE_DOMAIN"},
		public + "BASE_URL=https://example.org\nCOOKIE_DOMAIN=org":               {"COOKIE_DOMAIN"},
		public + "BASE_URL=https://EXAMPLE.CO.UK\nCOOKIE_DOMAIN=CO.UK":           {"COOKIE_DOMAIN"},
		public + "BASE_URL=https://example.co.uk.\nCOOKIE_DOMAIN=co.uk.":         {"COOKIE_DOMAIN"},
		public + "BASE_URL=https://example.org.\nCOOKIE_DOMAIN=.":                {"COOKIE_DOMAIN"},
		public + "BASE_URL=https://we.github.io\nCOOKIE_DOMAIN=github.io":        {"COOKIE_DOMAIN"},
		public + "BASE_URL=https://we.github.io\nCOOKIE_DOMAIN=.github.io":       {"COOKIE_DOMAIN"},
		public + "BASE_URL=https://github.io\nCOOKIE_DOMAIN=github.io":           {"COOKIE_DOMAIN"},
		public + "BASE_URL=https://a.b.kawasaki.jp\nCOOKIE_DOMAIN=b.kawasaki.jp": {"COOKIE_DOMAIN"},
		public + "BASE_URL=https://we.internal\nCOOKIE_DOMAIN=internal":          {"COOKIE_DOMAIN"},
		"BASE_URL=http://we.localhost:8080\nCOOKIE_DOMAIN=localhost":             {"COOKIE_DOMAIN"},
		"TLS=on":             {"TLS"},
		"TLS=FILES":          {"TLS"},
		"HTTP_ADDR=:0":       {"HTTP_ADDR"}, // without TLS there is nothing to redirect to
		public + "TLS=files": {"BASE_URL"},
		"TLS=files\nBASE_URL=http://localhost:8080":               {"BASE_URL"},
		public + "TLS=files\nBASE_URL=http://example.org":         {"BASE_URL"},
		public + "TLS=acme\nBASE_URL=http://example.org":          {"BASE_URL"},
		public + "TLS=acme\nBASE_URL=https://192.0.2.1":           {"BASE_URL"},
		public + "TLS=acme\nBASE_URL=https://[2001:db8::1]":       {"BASE_URL"},
		public + "TLS=acme\nBASE_URL=https://localhost":           {"BASE_URL"},
		public + "TLS=acme\nBASE_URL=https://we.localhost":        {"BASE_URL"},
		public + "TLS=acme\nBASE_URL=https://intranet":            {"BASE_URL"},
		public + "TLS=acme\nBASE_URL=https://example.org.":        {"BASE_URL"},
		public + "TLS=acme\nBASE_URL=https://we_are.example.org":  {"BASE_URL"},
		public + "TLS=acme\nBASE_URL=https://b\u00fccher.example": {"BASE_URL"},
		public + "TLS=acme\nBASE_URL=https://1.2.3":               {"BASE_URL"},
		"TLS=acme": {"BASE_URL"},
		public + "TLS=acme\nBASE_URL=https://example.org\nHTTP_ADDR=80":                           {"HTTP_ADDR"},
		public + "TLS=acme\nBASE_URL=https://example.org\nHTTP_ADDR=:http2":                       {"HTTP_ADDR"},
		public + "TLS=acme\nBASE_URL=https://example.org\nACME_DIRECTORY=http://ca.example":       {"ACME_DIRECTORY"},
		public + "TLS=acme\nBASE_URL=https://example.org\nACME_DIRECTORY=ca.example":              {"ACME_DIRECTORY"},
		public + "TLS=acme\nBASE_URL=http://example.org\nHTTP_ADDR=80\nACME_DIRECTORY=ca\nHSTS=x": {"HSTS", "HTTP_ADDR", "ACME_DIRECTORY", "BASE_URL"},
		"HSTS=31536000":                        {"HSTS"},
		"HSTS=includeSubDomains":               {"HSTS"},
		"HSTS=max-age=1y":                      {"HSTS"},
		"HSTS=max-age=1, includeSubDomains":    {"HSTS"},
		"HSTS=max-age=1; includeSubDomains; x": {"HSTS"},
		// In development anybody is anybody.
		"BASE_URL=https://example.org":                           {"BASE_URL"},
		"BASE_URL=http://192.168.1.5:8080":                       {"BASE_URL"},
		"BASE_URL=http://0.0.0.0:8080":                           {"BASE_URL"},
		"BASE_URL=http://localhost.example.org":                  {"BASE_URL"},
		"BASE_URL=http://127.0.0.1.example.org":                  {"BASE_URL"},
		"BASE_URL=http://notlocalhost":                           {"BASE_URL"},
		"BASE_URL=https://example.org\nDEVELOPMENT_PUBLIC=false": {"BASE_URL"},
		"DEVELOPMENT_PUBLIC=yes":                                 {"DEVELOPMENT_PUBLIC"},
		// In production the pages that act as the user come over TLS.
		"APP_ENV=production\nALLOWED_ORIGINS=http://app.example.org":                  {"ALLOWED_ORIGINS"},
		"APP_ENV=production\nALLOWED_ORIGINS=https://app.example.org,http://10.0.0.1": {"ALLOWED_ORIGINS"},
		"APP_ENV=production\nALLOWED_ORIGINS=http://localhost.example.org":            {"ALLOWED_ORIGINS"},
		"APP_ENV=production\nRETURN_ORIGINS=http://app.example.org":                   {"RETURN_ORIGINS"},
		"COOKIE_PARTITIONED=true":                         {"COOKIE_PARTITIONED"}, // development sets no Secure
		"COOKIE_PARTITIONED=maybe":                        {"COOKIE_PARTITIONED"},
		"TRUSTED_PROXIES=10.0.0.1":                        {"TRUSTED_PROXIES"},
		"TRUSTED_PROXIES=10.0.0.0/33":                     {"TRUSTED_PROXIES"},
		"TRUSTED_PROXIES=0.0.0.0/0":                       {"TRUSTED_PROXIES"},
		"TRUSTED_PROXIES=::/0":                            {"TRUSTED_PROXIES"},
		"TRUSTED_PROXIES=0.0.0.0/1,128.0.0.0/1":           {"TRUSTED_PROXIES"},
		"TRUSTED_PROXIES=10.0.0.0/8,0.0.0.0/2,64.0.0.0/2": {"TRUSTED_PROXIES"},
		"TRUSTED_PROXIES=::/1,8000::/1":                   {"TRUSTED_PROXIES"},
		"TRUSTED_PROXIES=2000::/3":                        {"TRUSTED_PROXIES"}, // all public ones
		"TRUSTED_PROXIES=::ffff:0.0.0.0/96":               {"TRUSTED_PROXIES"}, // all of IPv4
		"TRUSTED_PROXIES=::ffff:0.0.0.0/90":               {"TRUSTED_PROXIES"},
		"TRUSTED_PROXIES=" + everySlash8():                {"TRUSTED_PROXIES"},
		"RATE_LIMIT=-1":                                   {"RATE_LIMIT"},
		"WRITE_RATE=-1":                                   {"WRITE_RATE"},
		"WRITE_RATE=NaN":                                  {"WRITE_RATE"},
		"RATE_LIMIT=NaN":                                  {"RATE_LIMIT"},
		"RATE_LIMIT=+Inf":                                 {"RATE_LIMIT"},
		"MAX_IN_FLIGHT=0":                                 {"MAX_IN_FLIGHT"},
		"DOCS=perhaps":                                    {"DOCS"},
		"LOG_LEVEL=loud":                                  {"LOG_LEVEL"},
		"LOG_FORMAT=xml":                                  {"LOG_FORMAT"},
		"SHUTDOWN_TIMEOUT=0":                              {"SHUTDOWN_TIMEOUT"},
		"SHUTDOWN_TIMEOUT=soon":                           {"SHUTDOWN_TIMEOUT"},
		// Several at once, of every kind.
		"APP_ENV=x\nDB_MAX_CONNS=x\nDB_TIMEOUT=0\nJWT_SECRET=" + secret + "\nALLOWED_ORIGINS=*\nDOCS=x\nLOG_FORMAT=xml\nBASE_URL=x\nRATE_LIMIT=-1": {
			"APP_ENV", "DB_MAX_CONNS", "DB_TIMEOUT", "JWT_SECRET", "ALLOWED_ORIGINS", "DOCS", "LOG_FORMAT", "BASE_URL", "RATE_LIMIT"},
		"APP_ENV=x\nLISTEN_ADDR=x\nADMIN_ADDR=x\nDATABASE_URL=x\nJWT_SECRET=x\nREFRESH_TOKEN_TTL=0\nCOOKIE_PARTITIONED=true\nTRUSTED_PROXIES=x\nMAX_IN_FLIGHT=0\nSHUTDOWN_TIMEOUT=0": {
			"APP_ENV", "LISTEN_ADDR", "ADMIN_ADDR", "DATABASE_URL", "JWT_SECRET", "REFRESH_TOKEN_TTL", "TRUSTED_PROXIES", "MAX_IN_FLIGHT", "SHUTDOWN_TIMEOUT"},
	} {
		t.Run(setting, func(t *testing.T) {
			stdout, stderr, status := p.For(t).With(strings.Split(setting, "\n")...).Run("session", "issue", "alice")
			if status != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "worldevents: ") {
				t.Errorf("status %d\n%s", status, stderr)
			}
			var named []string
			for _, name := range regexp.MustCompile(`\b([A-Z]+(?:_[A-Z]+)+|DOCS|HSTS|TLS): `).FindAllStringSubmatch(stderr, -1) {
				named = append(named, name[1])
			}
			slices.Sort(named)
			slices.Sort(faults)
			if !slices.Equal(slices.Compact(named), faults) {
				t.Errorf("names %q, want %q:\n%s", named, faults, stderr)
			}
			if strings.Contains(stderr, secret) || strings.Contains(stderr, string(servicetest.Key)) {
				t.Errorf("shows a secret: %s", stderr)
			}
		})
	}
	if files, _ := os.ReadDir(p.Dir); len(files) != 0 {
		t.Errorf("refused, yet left %v", files)
	}
}

// The limits themselves are allowed, and what follows another setting follows it.
func TestConfigLimits(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{
		"REFRESH_REUSE_LEEWAY=1ms",
		"REFRESH_REUSE_LEEWAY=10m",
		"REFRESH_TOKEN_TTL=30s\nREFRESH_REUSE_LEEWAY=30s",
		"REFRESH_TOKEN_TTL=1s", // shorter than the leeway's default
		"REFRESH_TOKEN_TTL=1s\nREFRESH_REUSE_LEEWAY=",
		"JWT_TTL=1s",
		"JWT_TTL=15m",
		"SESSIONS_PER_USER=1",
		"SESSIONS_PER_USER=100",
		"DB_TIMEOUT=30s",
		"JWT_SECRET=" + strings.Repeat("x", 31) + "y",
		"JWT_SECRET=" + strings.Repeat("\xc3\xff\x80\xfe", 8), // bytes that are not UTF-8 are distinct, too
		"BASE_URL=http://app.localhost:3000",
		"BASE_URL=http://LOCALHOST:3000",
		"BASE_URL=http://127.1.2.3",
		"BASE_URL=https://[::1]:3000/path",
		"BASE_URL=https://example.org\nDEVELOPMENT_PUBLIC=true",
		"COOKIE_DOMAIN=localhost", // the very host: browsers take it
		"BASE_URL=https://api.example.co.uk\nCOOKIE_DOMAIN=example.co.uk\nDEVELOPMENT_PUBLIC=true",
		"BASE_URL=https://api.we.github.io\nCOOKIE_DOMAIN=we.github.io\nDEVELOPMENT_PUBLIC=true",
		"BASE_URL=https://api.we.internal\nCOOKIE_DOMAIN=we.internal\nDEVELOPMENT_PUBLIC=true",
		"BASE_URL=https://we.internal\nCOOKIE_DOMAIN=we.internal\nDEVELOPMENT_PUBLIC=true",
		"TRUSTED_PROXIES=10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,100.64.0.0/10,127.0.0.0/8,fc00::/7,fe80::/10,::1/128,::ffff:10.0.0.0/104",
		"ALLOWED_ORIGINS=http://app.example.org\nRETURN_ORIGINS=http://app.example.org",
		"TLS=files", // BASE_URL is https then
		"TLS=files\nHTTP_ADDR=:0",
		"TLS=acme\nBASE_URL=https://EXAMPLE.org:8443/path\nDEVELOPMENT_PUBLIC=true",
		"TLS=acme\nBASE_URL=https://xn--bcher-kva.example\nDEVELOPMENT_PUBLIC=true",
		"HSTS=",
		"HSTS=max-age=0",
		"HSTS=MAX-AGE=63072000;includeSubDomains ; preload",
		"SESSION_MAX_AGE=0",
		"SESSION_MAX_AGE=1s",
		"SESSION_MAX_AGE=1h\nREFRESH_TOKEN_TTL=720h",
	} {
		t.Run(setting, func(t *testing.T) {
			p := servicetest.NewProgram(t, strings.Split(setting, "\n")...)
			p.MustRun("migrate")
			if _, stderr, status := p.Run("session", "issue", "alice"); status != 0 {
				t.Errorf("status %d: %s", status, stderr)
			}
		})
	}
}

// What is allowed but rarely meant is one warning, and shows no secret.
func TestConfigWarnings(t *testing.T) {
	t.Parallel()
	production := []string{"APP_ENV=production", "BASE_URL=https://example.org", "OIDC_ISSUER=https://login.example.org", "OIDC_CLIENT_ID=worldevents"}
	with := func(env ...string) []string { return append(slices.Clone(production), env...) }
	ordinary := []string{
		"HOME=/root", "PATH=/bin", "USER=x", "SHELL=/bin/sh", "LANG=C", "TERM=xterm", "TZ=UTC", "HOSTNAME=h", "DISPLAY=:0", "MAIL=x", "EDITOR=vi",
		"PGHOST=x", "PGPORT=1", "PGUSER=x", "PGDATABASE=x", "DB_HOST=x", "DB_USER=x", "DB_NAME=x", "DB_TIMEZONE=UTC", "DATABASE_USER=x", "DATABASE_HOST=x",
		"TLS_CERT=x", "TLS_KEY=x", "HTTP_PROXY=", "https_proxy=http://10.0.0.1", "NO_PROXY=x", "NODE_ENV=production", "PORT=80", "BASE_DIR=/", "PAGE_URL=x",
		"SESSION_MANAGER=local/x", "DBUS_SESSION_BUS_ADDRESS=x", "XDG_SESSION_ID=1", "LISTEN_FDS=1", "LISTEN_PID=1", "LOG_FILE=x", "LOG_DIR=x", "LOG_PATH=x",
		"JWT_KEY=x", "APP_NAME=x", "APP_URL=x", "APP_KEY=x", "ADMIN_USER=x", "ADMIN_EMAIL=x", "RATE=1", "HOSTS=x", "DOTS=x", "BASE_UID=1", "GIT_SECRET=x", "KUBERNETES_SERVICE_HOST=10.0.0.1",
		"ALOWED_ORIGINS=", // empty is unset
	}
	for _, test := range []struct {
		name string
		env  []string
		want []string
	}{
		{"production with defaults", []string{"APP_ENV=production", "DATABASE_URL="}, []string{"BASE_URL", "DATABASE_URL", "OIDC_ISSUER"}},
		{"the lifetime of JWTs that production has", with("JWT_TTL=15m"), nil},
		{"production", with("DEVELOPMENT_PUBLIC=true"), nil},
		{"a leeway that the client needs", with("REFRESH_REUSE_LEEWAY=20s"), nil},
		{"a short leeway", with("REFRESH_REUSE_LEEWAY=19s"), []string{"REFRESH_REUSE_LEEWAY"}},
		{"a short lifetime", with("REFRESH_TOKEN_TTL=10s"), []string{"REFRESH_REUSE_LEEWAY"}},
		{"nobody can sign in", []string{"APP_ENV=production", "BASE_URL=https://example.org"}, []string{"OIDC_ISSUER"}},
		{"origins of this machine", with("ALLOWED_ORIGINS=http://localhost:5173,http://127.0.0.1:3000,http://[::1]:3000,http://app.localhost"), nil},
		{"7 distinct characters", with("JWT_SECRET=" + strings.Repeat("abdfhjl", 5)), []string{"JWT_SECRET"}},
		{"8 distinct characters", with("JWT_SECRET=" + strings.Repeat("abdfhjln", 5)), nil},
		{"the alphabet", with("JWT_SECRET=abcdefghijklmnopqrstuvwxyzabcdefghij"), []string{"JWT_SECRET"}},
		{"digits", with("JWT_SECRET=01234567890123456789012345678901"), []string{"JWT_SECRET"}},
		{"hexadecimal digits", with("JWT_SECRET=0123456789abcdef0123456789abcdef"), []string{"JWT_SECRET"}},
		{"the alphabet backwards", with("JWT_SECRET=ZYXWVUTSRQPONMLKJIHGFEDCBAZYXWVU"), []string{"JWT_SECRET"}},
		{"the second key", with("JWT_SECRET=" + string(servicetest.Key) + "," + strings.Repeat("ab", 16)), []string{"JWT_SECRET"}},
		{"misspelt names", with("ALOWED_ORIGINS=x", "JWT_SECRETS="+string(servicetest.Key), "jwt_secret=x", "Trusted_Proxies=x", "TRUSTED_PROXY=x", "LISTEN_ADDRESS=x", "COOKIEDOMAIN=x", "DB_TIMOEUT=x", "BSAE_URL=x", "docs=x"),
			[]string{"ALOWED_ORIGINS ALLOWED_ORIGINS", "BSAE_URL BASE_URL", "COOKIEDOMAIN COOKIE_DOMAIN", "DB_TIMOEUT DB_TIMEOUT", "JWT_SECRETS JWT_SECRET",
				"LISTEN_ADDRESS LISTEN_ADDR", "TRUSTED_PROXY TRUSTED_PROXIES", "Trusted_Proxies TRUSTED_PROXIES", "docs DOCS", "jwt_secret JWT_SECRET"}},
		{"another authority without ACME", with("ACME_DIRECTORY=https://ca.example.org/directory"), []string{"ACME_DIRECTORY"}},
		{"ordinary names", with(ordinary...), nil},
		{"development", nil, nil},
		{"development, a short leeway", []string{"LOG_FORMAT=json", "REFRESH_REUSE_LEEWAY=1s"}, nil},
		{"development, a misspelt name", []string{"LOG_FORMAT=json", "LOG_LEVELS=debug"}, []string{"LOG_LEVELS LOG_LEVEL"}},
		{"development, public", []string{"LOG_FORMAT=json", "DEVELOPMENT_PUBLIC=true", "BASE_URL=http://we.example.org"}, []string{"DEVELOPMENT_PUBLIC"}},
		{"development, public at home", []string{"LOG_FORMAT=json", "DEVELOPMENT_PUBLIC=true"}, nil},
		{"development, all interfaces", []string{"LOG_FORMAT=json", fmt.Sprintf("LISTEN_ADDR=:%d", servicetest.FreePort(t))}, []string{"LISTEN_ADDR"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := servicetest.NewProgram(t, test.env...).ServeReady()
			var warnings []string
			for line := range strings.Lines(s.Log.String()) {
				// Asking too early gets a response, and is logged as well.
				if !strings.Contains(line, "WARN") || strings.Contains(line, "not ready") {
					continue
				}
				_, message, _ := strings.Cut(line, `"msg":"`)
				names := regexp.MustCompile(`^\w+`).FindString(message)
				if name, meant, ok := strings.Cut(message, " is no setting and has no effect: "); ok {
					names = name + " " + regexp.MustCompile(`^\w+`).FindString(meant)
				}
				warnings = append(warnings, names)
			}
			if !slices.Equal(warnings, test.want) {
				t.Errorf("warnings %q, want %q: %s", warnings, test.want, s.Log)
			}
			// Production logs JSON, development text.
			if json := strings.HasPrefix(s.Log.String(), "{"); json != (len(test.env) > 0) {
				t.Errorf("logged as JSON: %v: %s", json, s.Log)
			}
			for _, setting := range test.env {
				if _, secret, ok := strings.Cut(setting, "JWT_SECRET="); ok && strings.Contains(s.Log.String(), secret) {
					t.Errorf("the log has the secret: %s", s.Log)
				}
			}
			if strings.Contains(s.Log.String(), string(servicetest.Key)) {
				t.Errorf("the log has the secret: %s", s.Log)
			}
		})
	}
}
