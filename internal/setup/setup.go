package setup

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"worldevents/config"
	"worldevents/internal/logs"
	"worldevents/models"
	"worldevents/server"
	"worldevents/server/certificate"
)

// Store opens the configured database. timeout bounds each of its calls.
func Store(c *config.Config, timeout time.Duration) (*models.Store, error) {
	store, err := models.Open(models.Options{URL: c.DatabaseURL, MaxConns: c.DBMaxConns, Timeout: timeout, Sessions: models.SessionPolicy{
		TTL: c.RefreshTokenTTL, MaxAge: c.SessionMaxAge, ReuseLeeway: c.RefreshReuseLeeway, PerUser: c.SessionsPerUser,
	}})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Source("DATABASE_URL"), err)
	}
	return store, nil
}

// Provider is the identity provider of the configuration, or nil.
func Provider(c *config.Config) *server.OIDC {
	if c.OIDCIssuer == "" {
		return nil
	}
	return &server.OIDC{
		Issuer: c.OIDCIssuer, ClientID: c.OIDCClientID, ClientSecret: c.OIDCClientSecret,
		Scopes: strings.Fields(c.OIDCScopes), UsernameClaim: c.OIDCUsernameClaim,
	}
}

// Certificate returns the source of the public listener's certificate, nil without TLS.
func Certificate(c *config.Config, log *slog.Logger) (source certificate.Source, err error) {
	switch c.TLS {
	case "acme":
		source, err = certificate.OpenACME(c.TLSDir, c.Base.Hostname(), c.ACMEDirectory, log)
	case "files":
		source, err = certificate.OpenFiles(c.TLSDir, c.Base.Hostname())
	}
	if err != nil {
		return nil, fmt.Errorf("TLS_DIR: %w", err)
	}
	return source, nil
}

// Contract is the text of openapi.yaml. kong gives commands their arguments by type.
type Contract []byte

// Server copies the configuration into a server's options.
func Server(c *config.Config, text Contract, store *models.Store, log, accessLog *slog.Logger) (server.Options, error) {
	contract, err := server.ReadContract(text)
	adminHost, _, _ := net.SplitHostPort(c.AdminAddr) // "" where there is none
	return server.Options{
		Contract: contract, Store: store, Log: log, AccessLog: accessLog, Audit: logs.At(c, slog.LevelInfo), LogEvery: c.LogEvery, LogLinesDropped: logs.Stderr.Dropped,
		Development: c.Development, BaseURL: c.Base, Docs: c.Docs, EventsPage: c.EventsPage, BrandName: c.BrandName, SecurityContacts: c.SecurityContacts,
		Keys: c.Keys, PrivateKeys: c.Ed25519Keys.Private, PublicKeys: c.Ed25519Keys.Public, Issuer: c.JWTIssuer, Audience: c.JWTAudience, JWTTTL: c.JWTTTL,
		CookieDomain: c.CookieDomain, CookiePartitioned: c.CookiePartitioned,
		OIDC: Provider(c), ReturnOrigins: c.ReturnOrigins, WorldAccess: c.WorldAccess, WorldToken: c.WorldAccessToken,
		AdminHosts: append(c.AdminHosts, adminHost),
		HSTS:       c.HSTS, AllowedOrigins: c.AllowedOrigins, TrustedProxies: c.Proxies,
		RateLimit: c.RateLimit, WriteRate: c.WriteRate, MaxInFlight: c.MaxInFlight, MaxConnections: c.ConnectionLimit(), MaxWatches: c.MaxWaiting, ListCache: c.ListCache << 20,
	}, err
}

// OpenListener is the warning about LISTEN_ADDR in development. check and serve give the same.
const OpenListener = "is not a loopback address: in development whoever reaches it signs in as anybody"
