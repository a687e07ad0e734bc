package config

import (
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"
)

// ours are first words of our settings that other programs seldom use.
var ours = []string{"ACME", "ALLOWED", "COOKIE", "JWT", "OIDC", "REFRESH", "RETURN", "SHUTDOWN", "TRUSTED", "WORLD"}

// unknown returns a warning for each variable of .env, or with a word of ours, that is no setting.
func (c *Config) unknown() (warnings []string) {
	known := c.Settings()
	for _, name := range slices.Sorted(maps.Keys(c.given)) {
		_, isSetting := known[name]
		_, isReal := os.LookupEnv(name) // libpq's are, wherever they stand
		word, _, _ := strings.Cut(strings.ToUpper(name), "_")
		if c.given[name] != "" && !isSetting && (!isReal || slices.Contains(ours, word)) {
			warnings = append(warnings, name+" is no setting and has no effect")
		}
	}
	return warnings
}

// warnings returns what is allowed but rarely meant, one line each, without secrets.
func (c *Config) warnings() []string {
	const (
		clientRetry = 20 * time.Second // the TypeScript client repeats a refresh that has lost its race as long
		maxStop     = 25 * time.Second // supervisors that end a process after 30 s have five for the rest of a stop
	)
	warnings, production, files := c.unknown(), !c.Development, openFiles()
	host, _, noAddress := net.SplitHostPort(c.AdminAddr)
	for _, row := range []struct {
		when  bool
		words string
	}{
		{c.ACMEDirectory != "" && c.TLS != "acme", "ACME_DIRECTORY has no effect without TLS=acme"},
		{noAddress == nil && host == "", "ADMIN_ADDR has all addresses of this machine: whoever reaches one reads metrics and takes profiles. If that is meant, write 0.0.0.0 before the port"},
		{c.ShutdownTimeout > maxStop, "SHUTDOWN_TIMEOUT is beyond 25s: systemd with the unit of this service, and Kubernetes unless told otherwise, end the process after 30s"},
		{c.Development && c.DevelopmentPublic && !isLoopback(c.Base.Hostname()), "DEVELOPMENT_PUBLIC: whoever reaches this service signs in as anybody"},
		{production && c.Base.Scheme == "http", "BASE_URL is plain http: browsers keep Secure cookies from it, except on localhost"},
		{production && c.given["DATABASE_URL"] == "" && c.DatabaseURLFile == "", "DATABASE_URL is not set: keeping data in worldevents.db in the working directory"},
		{production && c.RefreshReuseLeeway < clientRetry, "REFRESH_REUSE_LEEWAY is below 20s: an ordinary client that repeats a refresh may end its user's session"},
		{production && files < c.MaxWaiting+2*c.MaxInFlight, fmt.Sprintf("%d files may be open, and MAX_WAITING and twice MAX_IN_FLIGHT together are more: raise LimitNOFILE of systemd, or ulimit -n", files)},
		{production && slices.Contains(c.AllowedOrigins, "https://localhost"), "ALLOWED_ORIGINS has https://localhost: so does every app of Capacitor for Android, and whatever a user's own machine serves there may call this service as that user"},
		{production && c.WorldAccess != nil && c.WorldAccess.Scheme == "http", "WORLD_ACCESS_URL is plain http: whoever is on the way reads the token, and can let anybody in"},
		{production && c.OIDCIssuer == "", "OIDC_ISSUER is not set: nobody can sign in but through the command session issue"},
	} {
		if row.when {
			warnings = append(warnings, row.words)
		}
	}
	for _, file := range failed(c.exposed) { // production refuses them
		warnings = append(warnings, file.Error())
	}
	return warnings
}
