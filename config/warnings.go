package config

import (
	"net"
	"time"
)

// clientRetry is how long the TypeScript client may repeat a refresh that has lost its race.
const clientRetry = 20 * time.Second

// maxStop leaves supervisors that end a process after 30 s five for the rest of a stop.
const maxStop = 25 * time.Second

// warnings returns what is allowed but rarely meant, one line each. None of them shows a secret.
func (c *Config) warnings() []string {
	warnings := c.misspelt()
	if c.ACMEDirectory != "" && c.TLS != "acme" {
		warnings = append(warnings, "ACME_DIRECTORY has no effect without TLS=acme")
	}
	if host, _, err := net.SplitHostPort(c.AdminAddr); err == nil && (host == "" || net.ParseIP(host).IsUnspecified()) {
		warnings = append(warnings, "ADMIN_ADDR has all addresses of this machine: whoever reaches one reads metrics and takes profiles")
	}
	if c.ShutdownTimeout > maxStop {
		warnings = append(warnings, "SHUTDOWN_TIMEOUT is beyond 25s: systemd with the unit of this service, and Kubernetes unless told otherwise, end the process after 30s")
	}
	if c.Development {
		warnings = append(warnings, c.exposed...)
		if c.DevelopmentPublic && !isLoopback(c.Base.Hostname()) {
			warnings = append(warnings, "DEVELOPMENT_PUBLIC: whoever reaches this service signs in as anybody")
		}
		return warnings
	}
	if c.Base.Scheme == "http" {
		warnings = append(warnings, "BASE_URL is plain http: browsers keep Secure cookies from it, except on localhost")
	}
	if c.given["DATABASE_URL"] == "" && c.DatabaseURLFile == "" {
		warnings = append(warnings, "DATABASE_URL is not set: keeping data in worldevents.db in the working directory")
	}
	if c.RefreshReuseLeeway < clientRetry {
		warnings = append(warnings, "REFRESH_REUSE_LEEWAY is below 20s: an ordinary client that repeats a refresh may end its user's session")
	}
	if c.OIDCIssuer == "" {
		warnings = append(warnings, "OIDC_ISSUER is not set: nobody can sign in but through the command session issue")
	}
	return append(warnings, c.weakKeys()...)
}
