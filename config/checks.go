package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"worldevents/models"
)

// check is a row of the tables. Its words follow the name of the setting, and show no secret.
type check struct {
	setting string
	met     bool
	words   string
}

func each(setting string, values []string, met func(value string) bool, words string) (rows []check) {
	for _, value := range values {
		rows = append(rows, check{setting, met(value), fmt.Sprintf("%q %s", value, words)})
	}
	return rows
}

func failed(tables ...[]check) (problems []error) {
	for _, row := range slices.Concat(tables...) {
		if !row.met {
			problems = append(problems, fmt.Errorf("%s: %s", row.setting, row.words))
		}
	}
	return problems
}

// validate fills in the computed fields, and returns everything that is wrong.
func (c *Config) validate(needKey bool) []error {
	c.Development = c.AppEnv == "development"
	return failed(
		[]check{{"APP_ENV", c.Development || c.AppEnv == "production", "must be production or development"}},
		c.listeners(), c.baseURL(), c.tls(), c.database(), c.jwtSecret(needKey), c.privateKeys(), c.lifetimes(),
		c.origins("ALLOWED_ORIGINS", c.AllowedOrigins, isPageOrigin), c.origins("RETURN_ORIGINS", c.ReturnOrigins, isOrigin), c.pages(), c.provider(), c.worldAccess(), c.cookies(),
		c.proxies(), c.limits(), c.logging(),
		[]check{{"SHUTDOWN_TIMEOUT", c.ShutdownTimeout > 0, "must be more than 0"}},
	)
}

func (c *Config) database() []check {
	setting := c.Source("DATABASE_URL")
	scheme, rest, _ := strings.Cut(c.DatabaseURL, ":")
	return []check{
		{setting, scheme != "sqlite" || rest != "" && !strings.HasPrefix(rest, ":memory:"), "sqlite: needs the path of a file"},
		{setting, slices.Contains([]string{"sqlite", "postgres", "postgresql"}, scheme), "must begin with sqlite: or postgres://"},
		{"DB_MAX_CONNS", within(c.DBMaxConns, 1, 10000), "must be from 1 to 10000"}, // more than a server of PostgreSQL does well with
		{"DB_TIMEOUT", within(c.DBTimeout, time.Millisecond, WriteTimeout), fmt.Sprintf("must be from 1ms to %v, when the server gives a response up", WriteTimeout)},
	}
}

// lifetimes fills in defaults that depend on other settings.
func (c *Config) lifetimes() []check {
	validTTL := within(c.RefreshTokenTTL, time.Second, 400*24*time.Hour)
	longestLeeway := 10 * time.Minute
	if validTTL {
		longestLeeway = min(longestLeeway, c.RefreshTokenTTL)
	}
	if c.given["REFRESH_REUSE_LEEWAY"] == "" {
		c.RefreshReuseLeeway = min(c.RefreshReuseLeeway, longestLeeway)
	}
	if c.OIDCIssuer != "" && c.given["SESSION_MAX_AGE"] == "" {
		c.SessionMaxAge = 720 * time.Hour // the provider may have disabled the user, and cannot always say so
	}
	validJWT := within(c.JWTTTL, time.Second, models.TokenTTL)
	return []check{
		{"JWT_TTL", validJWT, "must be from 1s to 15m"},
		{"JWT_TTL", !validJWT || c.Development || c.JWTTTL == models.TokenTTL, "must be 15m in production: only development may shorten it"},
		{"REFRESH_TOKEN_TTL", validTTL, "must be from 1s to 9600h, the longest that browsers keep a cookie"},
		{"REFRESH_REUSE_LEEWAY", within(c.RefreshReuseLeeway, 1, longestLeeway), "must be more than 0, at most 10m and at most REFRESH_TOKEN_TTL"},
		{"SESSIONS_PER_USER", within(c.SessionsPerUser, 1, 100), "must be from 1 to 100"},
		{"SESSION_MAX_AGE", c.SessionMaxAge == 0 || c.SessionMaxAge >= time.Second, "must be 0, which means no limit, or 1s or more"},
	}
}

func (c *Config) limits() []check {
	return []check{
		{"RATE_LIMIT", within(c.RateLimit, 0, 1e9), "must be 0 or more"},
		{"WRITE_RATE", within(c.WriteRate, 0, 1e9), "must be 0 or more"},
		{"MAX_IN_FLIGHT", c.MaxInFlight >= 1, "must be 1 or more"},
		{"MAX_WAITING", c.MaxWaiting >= 0, "must be 0 or more"},
		{"MAX_CONNECTIONS", c.MaxConnections >= 0, "must be 0 or more"},
		{"LIST_CACHE", within(c.ListCache, 0, 64<<10), "must be from 0 to 65536"},
	}
}

func within[T int | float64 | time.Duration](value, least, most T) bool {
	return value >= least && value <= most
}

// logging fills in LogFormat and LogEvery.
func (c *Config) logging() []check {
	if c.LogFormat == "" && c.Development {
		c.LogFormat = "text"
	} else if c.LogFormat == "" {
		c.LogFormat = "json"
	}
	var ok bool
	c.LogEvery, ok = parseAccessLog(c.AccessLog)
	return []check{
		{"LOG_FORMAT", c.LogFormat == "json" || c.LogFormat == "text", "must be json or text"},
		{"ACCESS_LOG", ok, "must be all, errors, or 1/N for one request in N, such as 1/100"},
	}
}

// parseAccessLog returns LogEvery.
func parseAccessLog(text string) (every int64, ok bool) {
	switch text {
	case "all":
		return 1, true
	case "errors":
		return 0, true
	}
	digits, ok := strings.CutPrefix(text, "1/")
	n, err := strconv.ParseUint(digits, 10, 31)
	return int64(n), ok && err == nil && n > 0
}
