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
	// Contract is openapi.yaml. It decides what is required of a request, and is published under /openapi.json.
	Contract *Contract
	// Store keeps the data.
	Store *models.Store
	// Log receives a line for each event and each error, AccessLog one for each request, and Audit one for each change that a
	// user makes on a page; nil means Log. No secret is ever in one of them.
	Log, AccessLog, Audit *slog.Logger
	// LogEvery is how many requests without an error leave one line in AccessLog together; 1 means that each leaves its own,
	// and 0 that none does. Errors always do.
	LogEvery int64
	// LogLinesDropped returns how many lines of the logs were dropped, for metrics; nil means none ever.
	LogLinesDropped func() int64
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	// Development means cookies for plain HTTP and the sign-in page.
	Development bool
	// BaseURL is the public address. Its path is the cookies' Path and the prefix of every link; a proxy strips it.
	BaseURL *url.URL
	// Docs turns on /docs and the published contract.
	Docs bool
	// EventsPage turns on /events.
	EventsPage bool
	// BrandName is what the pages call the service.
	BrandName string
	// SecurityContacts are the URIs that /.well-known/security.txt names; none means that there is no such file.
	SecurityContacts []string

	// Keys sign JWTs (the first) and verify them (all) by HS256, 32 bytes or more each. Other keys of the service are derived
	// from them.
	Keys [][]byte
	// PrivateKeys and PublicKeys verify JWTs by EdDSA, too, and are published, the first by their public halves. The first
	// private key signs instead of Keys.
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

	// OIDC is the identity provider to sign in with; nil means none.
	OIDC *OIDC
	// ReturnOrigins are the exact origins, besides the service's own paths, that a sign-in may lead back to. The first is where pages lead
	// people back to.
	ReturnOrigins []string

	// HSTS is the header Strict-Transport-Security; empty means none, and so does Development.
	HSTS string
	// CertificateExpiry returns when the public listener's certificate expires, for metrics; nil means that it has none.
	CertificateExpiry func() time.Time
	// AllowedOrigins are the exact origins whose pages may call the API.
	AllowedOrigins []string
	// AdminHosts are the names by which the operator's listener is asked for metrics and profiles, besides localhost.
	AdminHosts []string
	// TrustedProxies are the networks whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
	// RateLimit is the number of requests a second allowed to one client; 0 means no limit.
	RateLimit float64
	// WriteRate is the number of writes a second allowed to one user, after a burst of ten times as many, by operations and on
	// /events together; 0 means no limit.
	WriteRate float64
	// MaxInFlight is the number of requests handled at once; more get 503. A request does not count while its body arrives, while it is
	// queued, and once its response begins.
	MaxInFlight int
	// MaxConnections is the number of connections of clients; more are closed at once.
	MaxConnections int
	// ListCache is how many bytes lists may take that are kept for others who ask; 0 keeps none.
	ListCache int
	// MaxWatches is the number of requests that watch lists, an eighth of them of one user; more get their response at once. While
	// they wait for news they do not count as in flight.
	MaxWatches int
}
