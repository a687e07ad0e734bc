package config

import (
	"strconv"
	"strings"
	"time"

	"worldevents/models"
)

// validate fills in what the texts mean, and returns everything that is wrong with their values.
func (c *Config) validate(needKey bool) []error {
	var found faults
	c.Development = c.AppEnv == "development"
	found.require("APP_ENV", c.Development || c.AppEnv == "production", "must be production or development")
	c.checkListeners(&found)
	c.checkBaseURL(&found)
	c.checkTLS(&found)
	c.checkDatabase(&found)
	c.checkKeys(&found, needKey, c.JWTSecret)
	c.readPrivateKeys(&found)
	c.checkLifetimes(&found)
	c.checkOrigins(&found, "ALLOWED_ORIGINS", c.AllowedOrigins)
	c.checkOrigins(&found, "RETURN_ORIGINS", c.ReturnOrigins)
	c.checkBrand(&found)
	c.checkContacts(&found)
	c.checkProvider(&found)
	c.checkCookies(&found)
	c.checkProxies(&found)
	c.checkLimits(&found)
	c.checkLogging(&found)
	found.require("SHUTDOWN_TIMEOUT", c.ShutdownTimeout > 0, "must be more than 0")
	return found
}

func (c *Config) checkDatabase(found *faults) {
	switch scheme, rest, _ := strings.Cut(c.DatabaseURL, ":"); {
	case scheme == "sqlite" && rest == "", scheme == "sqlite" && strings.HasPrefix(rest, ":memory:"):
		found.add(c.Source("DATABASE_URL"), "sqlite: needs the path of a file")
	case scheme != "sqlite" && scheme != "postgres" && scheme != "postgresql":
		found.add(c.Source("DATABASE_URL"), "must begin with sqlite: or postgres://")
	}
	found.require("DB_MAX_CONNS", c.DBMaxConns >= 1 && c.DBMaxConns <= maxDBConns, "must be from 1 to %d", maxDBConns)
	found.require("DB_TIMEOUT", c.DBTimeout >= time.Millisecond && c.DBTimeout <= WriteTimeout, "must be from 1ms to %v, when the server gives a response up", WriteTimeout)
}

// maxDBConns is more than a server of PostgreSQL does well with.
const maxDBConns = 10000

// checkLifetimes looks at how long tokens and sessions live. A JWT lives for models.TokenTTL, and never longer. The leeway of a refresh depends on the lifetime of its token.
func (c *Config) checkLifetimes(found *faults) {
	if c.JWTTTL < time.Second || c.JWTTTL > models.TokenTTL {
		found.add("JWT_TTL", "must be from 1s to 15m")
	} else if c.JWTTTL != models.TokenTTL && !c.Development {
		found.add("JWT_TTL", "must be 15m in production: only development may shorten it")
	}
	longestLeeway := 10 * time.Minute
	if c.RefreshTokenTTL < time.Second || c.RefreshTokenTTL > 400*24*time.Hour {
		found.add("REFRESH_TOKEN_TTL", "must be from 1s to 9600h, the longest that browsers keep a cookie")
	} else {
		longestLeeway = min(longestLeeway, c.RefreshTokenTTL)
	}
	if c.given["REFRESH_REUSE_LEEWAY"] == "" {
		c.RefreshReuseLeeway = min(c.RefreshReuseLeeway, longestLeeway)
	}
	found.require("REFRESH_REUSE_LEEWAY", c.RefreshReuseLeeway > 0 && c.RefreshReuseLeeway <= longestLeeway, "must be more than 0, at most 10m and at most REFRESH_TOKEN_TTL")
	found.require("SESSIONS_PER_USER", c.SessionsPerUser >= 1 && c.SessionsPerUser <= 100, "must be from 1 to 100")
	if c.OIDCIssuer != "" && c.given["SESSION_MAX_AGE"] == "" {
		c.SessionMaxAge = 720 * time.Hour // the provider may have disabled the user, and cannot always say so
	}
	found.require("SESSION_MAX_AGE", c.SessionMaxAge == 0 || c.SessionMaxAge >= time.Second, "must be 0, which means no limit, or 1s or more")
}

func (c *Config) checkLimits(found *faults) {
	found.require("RATE_LIMIT", c.RateLimit >= 0 && c.RateLimit <= 1e9, "must be 0 or more")
	found.require("WRITE_RATE", c.WriteRate >= 0 && c.WriteRate <= 1e9, "must be 0 or more")
	found.require("MAX_IN_FLIGHT", c.MaxInFlight >= 1, "must be 1 or more")
	found.require("MAX_WAITING", c.MaxWaiting >= 0, "must be 0 or more")
	const maxListCache = 64 << 10
	found.require("LIST_CACHE", c.ListCache >= 0 && c.ListCache <= maxListCache, "must be from 0 to %d", maxListCache)
}

func (c *Config) checkLogging(found *faults) {
	if c.LogFormat == "" {
		c.LogFormat = "json"
		if c.Development {
			c.LogFormat = "text"
		}
	}
	found.require("LOG_FORMAT", c.LogFormat == "json" || c.LogFormat == "text", "must be json or text")
	var ok bool
	c.LogEvery, ok = parseAccessLog(c.AccessLog)
	found.require("ACCESS_LOG", ok, "must be all, errors, or 1/N for one request in N, such as 1/100")
}

// parseAccessLog returns how many requests leave a line together; 0 means none.
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
