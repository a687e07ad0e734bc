package server

import (
	"crypto/ed25519"
	"log/slog"
	"net/netip"
	"net/url"
	"time"

	"worldevents/models"
)

// Options of a Server.
type Options struct {
	// Contract is the source of the rules for requests, and published under /openapi.json.
	Contract *Contract
	Store    *models.Store
	// Log gets a line for each event and error, AccessLog for each request, and Audit for each change that a user makes on a page; nil
	// means Log. None contains secrets.
	Log, AccessLog, Audit *slog.Logger
	// LogEvery is the number of requests without an error for each line in AccessLog; 0 means no lines. Errors are always logged.
	LogEvery int64
	// LogLinesDropped returns the number of dropped log lines, for metrics; nil means none.
	LogLinesDropped func() int64
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	// Development means cookies for plain HTTP and the sign-in page.
	Development bool
	// BaseURL is the public address. Its path is the Path of cookies and the prefix of links; a proxy strips it.
	BaseURL *url.URL
	// Docs turns on /docs and the published contract.
	Docs bool
	// EventsPage turns on /events.
	EventsPage bool
	// BrandName is the name of the service on its pages.
	BrandName string
	// SecurityContacts are the URIs in /.well-known/security.txt; without any there is no such file.
	SecurityContacts []string

	// Keys sign JWTs (the first) and verify them (all) by HS256, 32 bytes or more each. Other keys are derived from them.
	Keys [][]byte
	// PrivateKeys and PublicKeys verify JWTs by EdDSA, too, and are published, the first by their public halves. The first private key
	// signs instead of Keys.
	PrivateKeys []ed25519.PrivateKey
	PublicKeys  []ed25519.PublicKey
	// Issuer and Audience are written into JWTs and required of them, unless empty.
	Issuer, Audience string
	// JWTTTL is the lifetime of a JWT; 0 means models.TokenTTL, which it must not exceed.
	JWTTTL time.Duration
	// CookieDomain widens both cookies to a domain; empty keeps them host-only.
	CookieDomain string
	// CookiePartitioned adds the attribute Partitioned (CHIPS).
	CookiePartitioned bool

	// OIDC is the identity provider; nil means none.
	OIDC *OIDC
	// ReturnOrigins are the exact origins, besides the service itself, that a sign-in may lead back to. Pages link to the first.
	ReturnOrigins []string

	// WorldAccess is where to ask the system that owns the worlds before an operation on one, with WorldToken, unless that is ""; nil means
	// that it is not asked.
	WorldAccess *url.URL
	WorldToken  string

	// HSTS is the header Strict-Transport-Security; empty means none, and so does Development.
	HSTS string
	// CertificateExpiry returns when the public certificate expires, for metrics; nil means that there is none.
	CertificateExpiry func() time.Time
	// AllowedOrigins are the exact origins whose pages may call the API.
	AllowedOrigins []string
	// AdminHosts are the names, besides localhost, under which the operator's listener serves metrics and profiles.
	AdminHosts []string
	// TrustedProxies are the networks with a trusted X-Forwarded-For.
	TrustedProxies []netip.Prefix
	// RateLimit is the number of requests per second of a client; 0 means no limit.
	RateLimit float64
	// WriteRate is the number of writes per second of a user, by operations and on /events, after a burst of ten times that; 0 means no
	// limit.
	WriteRate float64
	// MaxInFlight bounds the requests handled at once; more get 503. A request does not count while its body arrives, while it is queued,
	// and once its response begins.
	MaxInFlight int
	// MaxConnections bounds the connections of clients; more are closed at once.
	MaxConnections int
	// ListCache is the size of the cache for lists, in bytes; 0 disables it.
	ListCache int
	// MaxWatches bounds the requests that watch lists, with an eighth for one user; more get their response at once. They do not count as
	// in flight while they wait.
	MaxWatches int
}
