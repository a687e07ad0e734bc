// Package server is the service over HTTP: the six operations of openapi.yaml, the pages around them, and the operator's
// endpoints. All that touches Echo is here.
package server

import (
	"cmp"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"worldevents/gen"
	"worldevents/models"
	"worldevents/server/internal/backpressure"
	"worldevents/server/internal/eventlist"
	"worldevents/server/internal/livelist"
	"worldevents/server/internal/observe"
	"worldevents/server/internal/oidc"
	"worldevents/server/internal/pages"
	"worldevents/server/internal/session"
	"worldevents/server/internal/signin"
)

// Options of a Server.
type Options struct {
	// Contract is openapi.yaml. It decides what is required of a request, and is published under /openapi.json.
	Contract *Contract
	// Store keeps the data.
	Store *models.Store
	// Log receives a line for each event and each error, AccessLog one for each request; nil means Log. No secret is ever
	// in either.
	Log, AccessLog *slog.Logger
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
	// SecurityContacts are the URIs that /.well-known/security.txt names; none means that there is no such file.
	SecurityContacts []string

	// Keys sign JWTs (the first) and verify them (all), 32 bytes or more each. Other keys of the service are derived from
	// them.
	Keys [][]byte
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
	// ReturnOrigins are the exact origins, besides the service's own paths, that a sign-in may lead back to.
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
	// WriteRate is the number of writes a second allowed to one user, after a burst of ten times as many; 0 means no limit.
	WriteRate float64
	// MaxInFlight is the number of requests handled at once; more get 503. Those whose response is stalled do not count, but there are
	// a quarter as many at most.
	MaxInFlight int
	// ListCache is how many bytes lists may take that are kept for others who ask; 0 keeps none.
	ListCache int
	// MaxWatches is the number of requests that watch lists, an eighth of them of one user; more get their response at once. While
	// they wait for news they do not count as in flight.
	MaxWatches int
}

// Server is the service behind its two listeners.
type Server struct {
	store    *models.Store
	log      *slog.Logger
	observer *observe.Observer
	sessions *session.Manager
	lists    *eventlist.Lists
	live     *livelist.Lists
	stalled  *backpressure.Class
	bodies   *bodies
	router   *router
	pages    *pages.Pages
	inFlight atomic.Int64
	signIn   *signin.Service
	baseURL  string         // the public address, without a slash at its end
	provider *oidc.Provider // nil without OIDC
	now      func() time.Time

	// Public is for the internet, Admin for the operator.
	Public, Admin http.Handler
}

// New wires a Server. An error means that the options can never work.
func New(o Options) (*Server, error) {
	browsers, err := newBrowserRules(o)
	if err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{
		store:   o.Store,
		log:     o.Log,
		stalled: backpressure.New(o.MaxInFlight / 4),
		baseURL: strings.TrimRight(o.BaseURL.String(), "/"),
		now:     o.Now,
	}
	base := basePath(o.BaseURL)
	o.Store.LogTo(o.Log)
	s.observer = observe.New(observe.Options{
		Store: o.Store, Log: o.Log, AccessLog: o.AccessLog, LogEvery: o.LogEvery, LogLinesDropped: o.LogLinesDropped,
		CertificateExpiry: o.CertificateExpiry, TrustedProxies: o.TrustedProxies,
		AlwaysCounted: []observe.Kind{errInternal.kind(), errOverloaded.kind()},
	})
	s.sessions = session.New(session.Options{
		Keys: o.Keys, Issuer: o.Issuer, Audience: o.Audience, TokenTTL: o.JWTTTL, RefreshTTL: o.Store.SessionPolicy().TTL, Now: s.now,
		Host: o.BaseURL.Hostname(), Development: o.Development, CookiePath: cmp.Or(base, "/"),
		CookieDomain: o.CookieDomain, CookiePartitioned: o.CookiePartitioned,
	})
	s.lists = eventlist.New(o.Store, s.baseURL, o.Keys[0], o.ListCache)
	s.live = livelist.New(o.Store, s.lists, livelist.Options{MaxWatches: o.MaxWatches, MaxAnswering: o.MaxInFlight / 4})
	s.bodies = newBodies(o.MaxInFlight, s.sessions)
	s.router = newRouter(s.observer, s.bodies)
	ofPages := pages.Options{BaseURL: s.baseURL, Base: base, Development: o.Development, Sessions: s.sessions, Now: o.Now}
	if o.OIDC != nil {
		s.provider = oidc.New(*o.OIDC, s.baseURL+"/sign-in/callback", o.Keys, s.now)
		ofPages.Provider = s.provider.Host()
	}
	s.pages = pages.New(ofPages)
	s.signIn = signin.New(signin.Options{
		Store: o.Store, Sessions: s.sessions, Pages: s.pages, Observer: s.observer, Errors: errorTable{}, Log: o.Log, Provider: s.provider,
		BaseURL: o.BaseURL, Development: o.Development, ReturnOrigins: o.ReturnOrigins,
	})
	s.registerMetrics()

	e := s.router.echo
	e.HTTPErrorHandler = s.writeError
	e.Binder = strictBinder{}
	e.IPExtractor = s.observer.ClientIP
	// What a request meets, in this order; then routing.
	e.Pre(s.observe(
		browsers.headers,
		refuseEmptyHost,
		browsers.cors,
		limitHeaderLines,
		s.limitInFlight(o.MaxInFlight, &s.inFlight),
		limitRate(o.RateLimit),
		s.awaitMigration(min(o.Store.Timeout()/2, maxStartWait)),
		browsers.refuseCrossOrigin,
		canonicalPath,
	))
	// Then, for each operation, what the contract demands of it; then its handler below.
	gen.RegisterHandlersWithOptions(e, gen.NewStrictHandler(s, nil), gen.RegisterHandlersOptions{
		OperationMiddlewares: s.operationMiddlewares(o.Contract.operations, o.WriteRate, setStoreDeadline(o.Store.Timeout())),
	})
	rejectExtraSegments(e)
	s.signIn.Register(s.router)
	pages.RegisterAssets(s.router)
	if o.Docs {
		s.pages.RegisterDocs(s.router, o.Contract.text)
	}
	s.pages.RegisterSecurityTxt(s.router, o.SecurityContacts)

	s.Public = e
	s.Admin = s.observer.Admin(o.AdminHosts)
	return s, nil
}

// registerMetrics registers what the parts say of themselves, and what requests hold now.
func (s *Server) registerMetrics() {
	s.observer.Register(s.lists.Collectors()...)
	s.observer.Register(s.live.Collectors()...)
	s.observer.Register(s.stalled.Collectors()...)
	s.observer.Register(s.signIn.Collectors()...)
	held := s.lists.Held()
	maps.Copy(held, s.live.Held())
	held["requests"] = func() int { return int(s.inFlight.Load()) }
	held["bodies"] = s.bodies.arriving.Held
	held["slow_responses"] = s.stalled.Stalled
	if s.provider != nil {
		held["sign_ins"] = s.provider.Held
	}
	s.observer.RegisterHeld(held)
}

// Attach makes h the server of Public, and returns the listener for it to serve on, which is l with bounds for clients
// that read slowly. It must be called before h serves.
func (s *Server) Attach(h *http.Server, l net.Listener) net.Listener {
	h.Handler = s.Public
	h.DisableGeneralOptionsHandler = true // net/http would respond to OPTIONS * by itself, past the limits and the log
	return s.stalled.Attach(h, l)
}

// Ready begins to report readiness and to take requests: the schema is up to date. It is called once.
func (s *Server) Ready() {
	s.live.Listen(s.log)
	s.observer.Readiness.Ready()
}

// StartFailed notes that a try to bring the schema up to date has failed, which comes before Ready. It may be called again.
func (s *Server) StartFailed(err error) { s.observer.Readiness.StartFailed(err) }

// Drain ends readiness, so that no new work is sent here, and has every response close its connection: a proxy that
// keeps connections must not send a request down one that the stop is about to close. Requests that wait for news, or for the
// start, have their response at once.
func (s *Server) Drain() {
	s.observer.Readiness.Drain()
	s.live.Stop()
}

// Hurry ends what clients hold up who do not read or send fast, a second from now: a stop waits for nobody else.
func (s *Server) Hurry() { s.stalled.Hurry() }

var _ gen.StrictServerInterface = (*Server)(nil)
