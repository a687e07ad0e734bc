package config_test

import (
	"maps"
	"strings"
	"testing"

	"worldevents/config"
	"worldevents/tests/servicetest"
)

// The defaults of the operating interface.
func TestDefaults(t *testing.T) {
	want := map[string]string{
		"APP_ENV": "production", "DEVELOPMENT_PUBLIC": "false", "LISTEN_ADDR": ":8080", "ADMIN_ADDR": "127.0.0.1:9090", "ADMIN_HOSTS": "", "BASE_URL": "http://localhost:8080",
		"TLS": "off", "TLS_DIR": "tls", "HTTP_ADDR": "", "ACME_DIRECTORY": "", "HSTS": "max-age=31536000; includeSubDomains",
		"DATABASE_URL": "sqlite:worldevents.db", "DATABASE_URL_FILE": "", "REQUIRE_DATABASE": "false", "DB_MAX_CONNS": "20", "DB_TIMEOUT": "2s",
		"JWT_SECRET": "xxxxx", "JWT_SECRET_FILE": "", "JWT_PRIVATE_KEY_FILE": "", "JWT_ISSUER": "", "JWT_AUDIENCE": "", "JWT_TTL": "15m0s",
		"REFRESH_TOKEN_TTL": "720h0m0s", "REFRESH_REUSE_LEEWAY": "1m0s", "SESSIONS_PER_USER": "1", "SESSION_MAX_AGE": "0s",
		"ALLOWED_ORIGINS": "", "COOKIE_DOMAIN": "", "COOKIE_PARTITIONED": "false", "RETURN_ORIGINS": "", "BRAND_NAME": "worldevents", "SECURITY_CONTACT": "", "TRUSTED_PROXIES": "",
		"OIDC_ISSUER": "", "OIDC_CLIENT_ID": "", "OIDC_CLIENT_SECRET": "", "OIDC_CLIENT_SECRET_FILE": "", "OIDC_SCOPES": "openid profile", "OIDC_USERNAME_CLAIM": "preferred_username",
		"WORLD_ACCESS_URL": "", "WORLD_ACCESS_TOKEN": "", "WORLD_ACCESS_TOKEN_FILE": "",
		"RATE_LIMIT": "0", "WRITE_RATE": "10", "MAX_IN_FLIGHT": "2048", "MAX_WAITING": "10000", "MAX_CONNECTIONS": "0", "LIST_CACHE": "64", "DOCS": "true", "EVENTS_PAGE": "true", "LOG_LEVEL": "INFO", "LOG_FORMAT": "json", "ACCESS_LOG": "all", "SHUTDOWN_TIMEOUT": "10s",
	}
	servicetest.Is(t, mustLoad(t, "JWT_SECRET="+key).Settings(), want, "the settings")
	empty := ""
	for name := range want { // empty is unset, but where it turns something off
		empty += name + "=\n"
	}
	off := maps.Clone(want)
	off["ADMIN_ADDR"], off["HSTS"] = "", ""
	servicetest.Is(t, mustLoad(t, empty+"JWT_SECRET="+key).Settings(), off, "the settings, all empty")
	want["APP_ENV"], want["LISTEN_ADDR"], want["LOG_FORMAT"] = "development", "127.0.0.1:8080,[::1]:8080", "text"
	servicetest.Is(t, mustLoad(t, development).Settings(), want, "the settings in development")
}

// What follows another setting follows it.
func TestFollowing(t *testing.T) {
	for _, test := range []struct {
		settings, name, want string
	}{
		{"REFRESH_TOKEN_TTL=10s", "REFRESH_REUSE_LEEWAY", "10s"},
		{"REFRESH_TOKEN_TTL=10s\nREFRESH_REUSE_LEEWAY=", "REFRESH_REUSE_LEEWAY", "10s"},
		{"REFRESH_TOKEN_TTL=10m", "REFRESH_REUSE_LEEWAY", "1m0s"},
		{production, "SESSION_MAX_AGE", "720h0m0s"},
		{production + "\nSESSION_MAX_AGE=0", "SESSION_MAX_AGE", "0s"},
		{production + "\nSESSION_MAX_AGE=1h", "SESSION_MAX_AGE", "1h0m0s"},
		{public + "LISTEN_ADDR=:3000", "BASE_URL", "http://localhost:8080"},
		{"LISTEN_ADDR=:3000", "BASE_URL", "http://localhost:3000"},
		{"LISTEN_ADDR=:80", "BASE_URL", "http://localhost"},
		{"LISTEN_ADDR=:http", "BASE_URL", "http://localhost"},
		{"LISTEN_ADDR=:443", "BASE_URL", "http://localhost:443"},
		{"TLS=files", "BASE_URL", "https://localhost:8080"},
		{"TLS=files\nLISTEN_ADDR=:443", "BASE_URL", "https://localhost"},
		{"TLS=files\nLISTEN_ADDR=:80", "BASE_URL", "https://localhost:80"},
		{"LISTEN_ADDR=:3000\nBASE_URL=http://app.localhost/base", "BASE_URL", "http://app.localhost/base"},
		{"LISTEN_ADDR=:8080", "LISTEN_ADDR", ":8080"},
		{"LOG_FORMAT=json", "LOG_FORMAT", "json"},
		{public + "LOG_FORMAT=text", "LOG_FORMAT", "text"},
	} {
		c := mustLoad(t, development, test.settings)
		servicetest.Is(t, c.Settings()[test.name], test.want, "%s: %s", test.settings, test.name)
		servicetest.Is(t, c.Base.String(), c.BaseURL, "%s: the parsed BASE_URL", test.settings)
	}
}

// Nothing of a secret is in what check prints.
func TestSettingsAreMasked(t *testing.T) {
	for _, test := range []struct{ settings, name, want string }{
		{"JWT_SECRET=" + key + "," + key[32:] + hidden, "JWT_SECRET", "xxxxx,xxxxx"},
		{"OIDC_CLIENT_SECRET=" + hidden, "OIDC_CLIENT_SECRET", "xxxxx"},
		{"DATABASE_URL=postgres://u:" + hidden + "@h/d?sslPassword=" + hidden + "&sslmode=require", "DATABASE_URL", "postgres://u:xxxxx@h/d?sslPassword=xxxxx&sslmode=require"},
		{"DATABASE_URL=postgres://u:" + hidden + "@h:port/d", "DATABASE_URL", "xxxxx"},
		{"DATABASE_URL=postgres:" + hidden, "DATABASE_URL", "xxxxx"},
		{"DATABASE_URL=sqlite:/var/lib/we.db", "DATABASE_URL", "sqlite:/var/lib/we.db"},
		{"JWT_SECRET=\nJWT_SECRET_FILE=" + key, "JWT_SECRET_FILE", "xxxxx"},
		{"DATABASE_URL_FILE=postgres://u:" + hidden + "@h/d", "DATABASE_URL_FILE", "xxxxx"},
		{"WORLD_ACCESS_URL=https://worlds.example.org/may\nWORLD_ACCESS_TOKEN=" + hidden, "WORLD_ACCESS_TOKEN", "xxxxx"},
		{"WORLD_ACCESS_URL=https://worlds.example.org/may", "WORLD_ACCESS_URL", "https://worlds.example.org/may"},
		{"WORLD_ACCESS_URL=https://worlds.example.org/may?key=" + hidden, "WORLD_ACCESS_URL", "xxxxx"},
		{"WORLD_ACCESS_URL=https://u:" + hidden + "@worlds.example.org/may", "WORLD_ACCESS_URL", "xxxxx"},
		{"OIDC_CLIENT_SECRET_FILE=" + hidden, "OIDC_CLIENT_SECRET_FILE", hidden}, // which may be the name of a file
	} {
		setEnv(t, development, test.settings)
		c, _ := config.Inspect(true)
		servicetest.Is(t, c.Settings()[test.name], test.want, "%s: %s", test.settings, test.name)
	}
}

// misspelt names are near those of settings.
const misspelt = "ALOWED_ORIGINS=x\nBASE_URI=x\nBSAE_URL=x\nCOOKIEDOMAIN=x\nCOOKIE-DOMAIN=x\nDB_TIMOEUT=x\nJWT_SECRETS=" + key + "\nLISTEN_ADDRESS=x\nMAX_WATING=x\nREFRESH_TOKN_TL=x\nTRUSTED_PROXY=x\nTrusted_Proxies=x\ndocs=x\njwt_secret=x"

// ordinary names are those of other programs, and one that is empty, which is unset.
var ordinary = strings.Join(strings.Fields(`
	HOME=/root PATH=/bin USER=x SHELL=/bin/sh LANG=C TERM=xterm TZ=UTC HOSTNAME=h DISPLAY=:0 MAIL=x EDITOR=vi PGHOST=x PGPORT=1 PGUSER=x
	PGDATABASE=x DB_HOST=x DB_USER=x DB_NAME=x DB_TIMEZONE=UTC DATABASE_USER=x DATABASE_HOST=x TLS_CERT=x TLS_KEY=x HTTP_PROXY=
	https_proxy=http://10.0.0.1 NO_PROXY=x NODE_ENV=production PORT=80 BASE_DIR=/ PAGE_URL=x SESSION_MANAGER=local/x DBUS_SESSION_BUS_ADDRESS=x
	XDG_SESSION_ID=1 LISTEN_FDS=1 LISTEN_PID=1 LOG_FILE=x LOG_DIR=x LOG_PATH=x APP_NAME=x APP_URL=x APP_KEY=x ADMIN_USER=x ADMIN_EMAIL=x RATE=1
	HOSTS=x DOTS=x BASE_UID=1 GIT_SECRET=x KUBERNETES_SERVICE_HOST=10.0.0.1 ALOWED_ORIGINS=`), "\n")

// What is allowed but rarely meant is one warning, and shows no secret.
func TestWarnings(t *testing.T) {
	const (
		leeway       = "REFRESH_REUSE_LEEWAY is below 20s: an ordinary client that repeats a refresh may end its user's session"
		noProvider   = "OIDC_ISSUER is not set: nobody can sign in but through the command session issue"
		anybody      = "DEVELOPMENT_PUBLIC: whoever reaches this service signs in as anybody"
		everywhere   = "ADMIN_ADDR has all addresses of this machine: whoever reaches one reads metrics and takes profiles. If that is meant, write 0.0.0.0 before the port"
		sharedOrigin = "ALLOWED_ORIGINS has https://localhost: so does every app of Capacitor for Android, and whatever a user's own machine serves there may call this service as that user"
		noSetting    = " is no setting and has no effect"
	)
	for _, test := range []struct {
		settings string
		want     []string
	}{
		{production, nil},
		{"APP_ENV=production\nJWT_SECRET=" + key, []string{
			"BASE_URL is plain http: browsers keep Secure cookies from it, except on localhost",
			"DATABASE_URL is not set: keeping data in worldevents.db in the working directory", noProvider,
		}},
		{production + "\nDEVELOPMENT_PUBLIC=true\nJWT_TTL=15m", nil},
		{production + "\nOIDC_ISSUER=\nOIDC_CLIENT_ID=", []string{noProvider}},
		{production + "\nALLOWED_ORIGINS=http://localhost:5173,http://127.0.0.1:3000,http://[::1]:3000,http://app.localhost", nil},
		{production + "\nALLOWED_ORIGINS=tauri://localhost,capacitor://localhost,app://.,ionic://localhost:8100,chrome-extension://abcdefgh", nil},
		{production + "\nALLOWED_ORIGINS=https://localhost", []string{sharedOrigin}},
		{production + "\nREFRESH_REUSE_LEEWAY=20s", nil},
		{production + "\nREFRESH_REUSE_LEEWAY=19.999s", []string{leeway}},
		{production + "\nREFRESH_TOKEN_TTL=10s", []string{leeway}},
		{production + "\nACME_DIRECTORY=https://ca.example.org/directory", []string{"ACME_DIRECTORY has no effect without TLS=acme"}},
		{production + "\nTLS=acme\nACME_DIRECTORY=https://ca.example.org/directory", nil},
		{production + "\nWORLD_ACCESS_URL=http://worlds.example.org/may?x=y", []string{"WORLD_ACCESS_URL is plain http: whoever is on the way reads the token, and can let anybody in"}},
		{production + "\nWORLD_ACCESS_URL=https://worlds.example.org/may?x=y\nWORLD_ACCESS_TOKEN=abc-._~+/1==", nil},
		{production + "\nADMIN_ADDR=:9090", []string{everywhere}},
		{production + "\nADMIN_ADDR=0.0.0.0:9090", nil}, // as the image has it
		{production + "\nADMIN_ADDR=[::]:9090\nSHUTDOWN_TIMEOUT=25s", nil},
		{production + "\nADMIN_ADDR=10.0.0.5:9090\nSHUTDOWN_TIMEOUT=26s", []string{"SHUTDOWN_TIMEOUT is beyond 25s: systemd with the unit of this service, and Kubernetes unless told otherwise, end the process after 30s"}},
		{production + "\n" + ordinary, nil},
		{production + "\n" + misspelt, []string{
			"JWT_SECRETS" + noSetting, "REFRESH_TOKN_TL" + noSetting, "TRUSTED_PROXY" + noSetting, "Trusted_Proxies" + noSetting, "jwt_secret" + noSetting,
		}},
		{development, nil},
		{development + "\nREFRESH_REUSE_LEEWAY=1s\nJWT_SECRET=" + strings.Repeat("ab", 16), nil},
		{development + "\nOIDC_ISUER=x", []string{"OIDC_ISUER" + noSetting}},
		{development + "\nACME_DIRECTORY=https://ca.example.org/directory", []string{"ACME_DIRECTORY has no effect without TLS=acme"}},
		{development + "\nDEVELOPMENT_PUBLIC=true\nBASE_URL=http://we.example.org", []string{anybody}},
		{development + "\nDEVELOPMENT_PUBLIC=true", nil},
	} {
		servicetest.Is(t, mustLoad(t, test.settings).Warnings, test.want, "%q", test.settings)
	}
}
