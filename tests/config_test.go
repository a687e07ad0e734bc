package tests

import (
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

// .env.example lists exactly the variables there are, with their defaults.
func TestEnvExample(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(servicetest.Root(t), ".env.example"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^#?([A-Z_]+)=(.*)$`).FindAllStringSubmatch(string(text), -1) {
		if _, twice := listed[m[1]]; twice {
			t.Errorf("%s is listed twice", m[1])
		}
		listed[m[1]] = m[2]
	}
	for field := range reflect.TypeFor[config.Config]().Fields() {
		name := field.Tag.Get("env")
		if name == "" || name == "-" {
			continue
		}
		value, ok := listed[name]
		if want := field.Tag.Get("envDefault"); !ok || value != want && name != "APP_ENV" && name != "LOG_FORMAT" {
			t.Errorf("%s=%s in .env.example, want %q", name, value, want)
		}
		delete(listed, name)
	}
	if len(listed) > 0 {
		t.Errorf("unknown variables %v", listed)
	}
	if !strings.Contains(string(text), "\nAPP_ENV=development\n") || !strings.Contains(string(text), "\nJWT_SECRET=\n") {
		t.Error(".env.example must say development, and leave JWT_SECRET empty")
	}
}

// The defaults of the operating interface.
func TestConfigDefaults(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"APP_ENV": "production", "LISTEN_ADDR": ":8080", "ADMIN_ADDR": "127.0.0.1:9090", "BASE_URL": "http://localhost:8080",
		"DATABASE_URL": "sqlite:worldevents.db", "DB_MAX_CONNS": "20", "DB_TIMEOUT": "2s", "JWT_SECRET": "", "JWT_ISSUER": "", "JWT_AUDIENCE": "",
		"REFRESH_TOKEN_TTL": "720h", "REFRESH_REUSE_LEEWAY": "60s", "SESSIONS_PER_USER": "1", "SESSION_MAX_AGE": "0", "ALLOWED_ORIGINS": "", "COOKIE_DOMAIN": "", "COOKIE_PARTITIONED": "false",
		"OIDC_ISSUER": "", "OIDC_CLIENT_ID": "", "OIDC_CLIENT_SECRET": "", "OIDC_SCOPES": "openid profile",
		"OIDC_USERNAME_CLAIM": "preferred_username", "RETURN_ORIGINS": "",
		"TRUSTED_PROXIES": "", "RATE_LIMIT": "0", "MAX_IN_FLIGHT": "2048", "DOCS": "true", "LOG_LEVEL": "info", "LOG_FORMAT": "", "SHUTDOWN_TIMEOUT": "10s",
	}
	got := map[string]string{}
	for field := range reflect.TypeFor[config.Config]().Fields() {
		if name := field.Tag.Get("env"); name != "" && name != "-" {
			got[name] = field.Tag.Get("envDefault")
		}
	}
	if !equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

// Each unsafe or senseless setting is refused with one line that names it and shows no secret.
func TestConfigFaults(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-hunter2-hunter2"
	p := servicetest.NewProgram(t)
	for setting, faults := range map[string][]string{
		"APP_ENV=dev":                                          {"APP_ENV"},
		"APP_ENV=Production":                                   {"APP_ENV"},
		"LISTEN_ADDR=8080":                                     {"LISTEN_ADDR"},
		"ADMIN_ADDR=localhost":                                 {"ADMIN_ADDR"},
		"BASE_URL=example.org":                                 {"BASE_URL"},
		"BASE_URL=ftp://example.org":                           {"BASE_URL"},
		"BASE_URL=https://example.org/?x":                      {"BASE_URL"},
		"BASE_URL=https://example.org/#x":                      {"BASE_URL"},
		"BASE_URL=https://u:" + secret + "@x.org":              {"BASE_URL"},
		"BASE_URL=https://example.org/a;b":                     {"BASE_URL"},
		"DATABASE_URL=mysql://u:" + secret + "@x/db":           {"DATABASE_URL"},
		"DATABASE_URL=postgres://u:" + secret + "@[x":          {"DATABASE_URL"},
		"DATABASE_URL=postgres://u:" + secret + "@h:port/db":   {"DATABASE_URL"},
		"DATABASE_URL=sqlite:":                                 {"DATABASE_URL"},
		"DATABASE_URL=sqlite::memory:":                         {"DATABASE_URL"},
		"DATABASE_URL=worldevents.db":                          {"DATABASE_URL"},
		"DB_MAX_CONNS=0":                                       {"DB_MAX_CONNS"},
		"DB_MAX_CONNS=many":                                    {"DB_MAX_CONNS"},
		"DB_TIMEOUT=0":                                         {"DB_TIMEOUT"},
		"DB_TIMEOUT=-1s":                                       {"DB_TIMEOUT"},
		"DB_TIMEOUT=2":                                         {"DB_TIMEOUT"},
		"JWT_SECRET=":                                          {"JWT_SECRET"},
		"JWT_SECRET=" + secret:                                 {"JWT_SECRET"},
		"JWT_SECRET=" + strings.Repeat("x", 31):                {"JWT_SECRET"},
		"JWT_SECRET=" + string(servicetest.Key) + ",":          {"JWT_SECRET"},
		"JWT_SECRET=" + string(servicetest.Key) + "," + secret: {"JWT_SECRET"},
		"JWT_SECRET=your-256-bit-secret-your-256-bit-secret":   {"JWT_SECRET"},
		"JWT_SECRET=a-string-secret-at-least-256-bits-long":    {"JWT_SECRET"},
		"JWT_SECRET=CHANGEME-CHANGEME-CHANGEME-CHANGEME":       {"JWT_SECRET"},
		"REFRESH_TOKEN_TTL=0":                                  {"REFRESH_TOKEN_TTL"},
		"REFRESH_TOKEN_TTL=30d":                                {"REFRESH_TOKEN_TTL"},
		"REFRESH_TOKEN_TTL=9601h":                              {"REFRESH_TOKEN_TTL"},
		"REFRESH_REUSE_LEEWAY=-1s":                             {"REFRESH_REUSE_LEEWAY"},
		"REFRESH_REUSE_LEEWAY=0":                               {"REFRESH_REUSE_LEEWAY"},
		"REFRESH_REUSE_LEEWAY=10m1ms":                          {"REFRESH_REUSE_LEEWAY"},
		"REFRESH_REUSE_LEEWAY=60":                              {"REFRESH_REUSE_LEEWAY"},
		"REFRESH_TOKEN_TTL=30s\nREFRESH_REUSE_LEEWAY=31s":      {"REFRESH_REUSE_LEEWAY"},
		"REFRESH_TOKEN_TTL=0\nREFRESH_REUSE_LEEWAY=0":          {"REFRESH_TOKEN_TTL", "REFRESH_REUSE_LEEWAY"},
		"REFRESH_TOKEN_TTL=0\nREFRESH_REUSE_LEEWAY=60s":        {"REFRESH_TOKEN_TTL"},
		"SESSIONS_PER_USER=0":                                  {"SESSIONS_PER_USER"},
		"SESSIONS_PER_USER=101":                                {"SESSIONS_PER_USER"},
		"SESSIONS_PER_USER=-1":                                 {"SESSIONS_PER_USER"},
		"SESSIONS_PER_USER=1.5":                                {"SESSIONS_PER_USER"},
		"SESSION_MAX_AGE=-1s":                                  {"SESSION_MAX_AGE"},
		"SESSION_MAX_AGE=999ms":                                {"SESSION_MAX_AGE"},
		"SESSION_MAX_AGE=30d":                                  {"SESSION_MAX_AGE"},
		"ALLOWED_ORIGINS=*":                                    {"ALLOWED_ORIGINS"},
		"ALLOWED_ORIGINS=null":                                 {"ALLOWED_ORIGINS"},
		"ALLOWED_ORIGINS=https://*.example.org":                {"ALLOWED_ORIGINS"},
		"ALLOWED_ORIGINS=https://a.example,*":                  {"ALLOWED_ORIGINS"},
		"ALLOWED_ORIGINS=https://a.example/":                   {"ALLOWED_ORIGINS"},
		"ALLOWED_ORIGINS=https://a.example/path":               {"ALLOWED_ORIGINS"},
		"ALLOWED_ORIGINS=a.example":                            {"ALLOWED_ORIGINS"},
		"ALLOWED_ORIGINS=https://A.example":                    {"ALLOWED_ORIGINS"}, // browsers send lower case: it could never match
		"ALLOWED_ORIGINS=https://a.example:443":                {"ALLOWED_ORIGINS"}, // nor does the default port
		"COOKIE_DOMAIN=example.org":                            {"COOKIE_DOMAIN"},   // BASE_URL is localhost
		"COOKIE_DOMAIN=localhost; Secure":                      {"COOKIE_DOMAIN"},
		"COOKIE_PARTITIONED=true":                              {"COOKIE_PARTITIONED"}, // development sets no Secure
		"COOKIE_PARTITIONED=maybe":                             {"COOKIE_PARTITIONED"},
		"TRUSTED_PROXIES=10.0.0.1":                             {"TRUSTED_PROXIES"},
		"TRUSTED_PROXIES=10.0.0.0/33":                          {"TRUSTED_PROXIES"},
		"RATE_LIMIT=-1":                                        {"RATE_LIMIT"},
		"RATE_LIMIT=NaN":                                       {"RATE_LIMIT"},
		"RATE_LIMIT=+Inf":                                      {"RATE_LIMIT"},
		"MAX_IN_FLIGHT=0":                                      {"MAX_IN_FLIGHT"},
		"DOCS=perhaps":                                         {"DOCS"},
		"LOG_LEVEL=loud":                                       {"LOG_LEVEL"},
		"LOG_FORMAT=xml":                                       {"LOG_FORMAT"},
		"SHUTDOWN_TIMEOUT=0":                                   {"SHUTDOWN_TIMEOUT"},
		"SHUTDOWN_TIMEOUT=soon":                                {"SHUTDOWN_TIMEOUT"},
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
			for _, name := range regexp.MustCompile(`\b([A-Z]+(?:_[A-Z]+)+|DOCS): `).FindAllStringSubmatch(stderr, -1) {
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
		"SESSIONS_PER_USER=1",
		"SESSIONS_PER_USER=100",
		"SESSION_MAX_AGE=0",
		"SESSION_MAX_AGE=1s",
		"SESSION_MAX_AGE=1h\nREFRESH_TOKEN_TTL=720h",
	} {
		t.Run(setting, func(t *testing.T) {
			p := servicetest.NewProgram(t, strings.Split(setting, "\n")...)
			if _, stderr, status := p.Run("session", "issue", "alice"); status != 0 {
				t.Errorf("status %d: %s", status, stderr)
			}
		})
	}
}

// What is allowed but rarely meant is one warning.
func TestConfigWarnings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		env  []string
		want []string
	}{
		{"production with defaults", []string{"APP_ENV=production", "DATABASE_URL="}, []string{"BASE_URL", "DATABASE_URL"}},
		{"production", []string{"APP_ENV=production", "BASE_URL=https://example.org"}, nil},
		{"a leeway that the client needs", []string{"APP_ENV=production", "BASE_URL=https://example.org", "REFRESH_REUSE_LEEWAY=20s"}, nil},
		{"a short leeway", []string{"APP_ENV=production", "BASE_URL=https://example.org", "REFRESH_REUSE_LEEWAY=19s"}, []string{"REFRESH_REUSE_LEEWAY"}},
		{"a short lifetime", []string{"APP_ENV=production", "BASE_URL=https://example.org", "REFRESH_TOKEN_TTL=10s"}, []string{"REFRESH_REUSE_LEEWAY"}},
		{"development", nil, nil},
		{"development, a short leeway", []string{"LOG_FORMAT=json", "REFRESH_REUSE_LEEWAY=1s"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := servicetest.NewProgram(t, test.env...).ServeReady()
			var warnings []string
			for line := range strings.Lines(s.Log.String()) {
				// Asking too early gets a response, and is logged as well.
				if strings.Contains(line, "WARN") && !strings.Contains(line, "not ready") {
					warnings = append(warnings, regexp.MustCompile("BASE_URL|DATABASE_URL|REFRESH_REUSE_LEEWAY").FindString(line))
				}
			}
			if !slices.Equal(warnings, test.want) {
				t.Errorf("warnings %q, want %q: %s", warnings, test.want, s.Log)
			}
			// Production logs JSON, development text.
			if json := strings.HasPrefix(s.Log.String(), "{"); json != (len(test.env) > 0) {
				t.Errorf("logged as JSON: %v: %s", json, s.Log)
			}
		})
	}
}
