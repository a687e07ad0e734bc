package server

import (
	"cmp"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"strings"
	"time"

	"worldevents/gen"
	"worldevents/models"
	"worldevents/server/internal/eventlist"
	"worldevents/server/internal/inflight"
	"worldevents/server/internal/livelist"
	"worldevents/server/internal/observe"
	"worldevents/server/internal/oidc"
	"worldevents/server/internal/ownevents"
	"worldevents/server/internal/pages"
	"worldevents/server/internal/session"
	"worldevents/server/internal/signin"
	"worldevents/server/internal/worlds"
)

// Server is the service behind its two listeners.
type Server struct {
	store     *models.Store
	log       *slog.Logger
	observer  *observe.Observer
	sessions  *session.Manager
	lists     *eventlist.Lists
	live      *livelist.Lists
	places    *inflight.Places
	conns     *inflight.Connections
	router    *router
	pages     *pages.Pages
	signIn    *signin.Service
	ownEvents *ownevents.Service // nil without the page
	baseURL   string             // the public address, without a slash at its end
	provider  *oidc.Provider     // nil without OIDC
	worlds    *worlds.Owner      // nil if nobody owns the worlds
	now       func() time.Time

	// Public is for the internet, Admin for the operator.
	Public, Admin http.Handler
}

// New returns a Server, or an error for options that can never work.
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
		places:  inflight.New(o.MaxInFlight),
		conns:   inflight.NewConnections(o.MaxConnections),
		baseURL: strings.TrimRight(o.BaseURL.String(), "/"),
		now:     o.Now,
	}
	base := basePath(o.BaseURL)
	o.Store.LogTo(o.Log)
	s.observer = observe.New(observe.Options{
		Store: o.Store, Log: o.Log, AccessLog: o.AccessLog, Audit: o.Audit, LogEvery: o.LogEvery, LogLinesDropped: o.LogLinesDropped,
		CertificateExpiry: o.CertificateExpiry, TrustedProxies: o.TrustedProxies,
		AlwaysCounted: []observe.Kind{errInternal.kind(), errOverloaded.kind()},
	})
	s.sessions = session.New(session.Options{
		Secrets: o.Keys, PrivateKeys: o.PrivateKeys, PublicKeys: o.PublicKeys, Issuer: o.Issuer, Audience: o.Audience, TokenTTL: o.JWTTTL, RefreshTTL: o.Store.SessionPolicy().TTL, Now: s.now,
		Host: o.BaseURL.Hostname(), Development: o.Development, CookiePath: cmp.Or(base, "/"),
		CookieDomain: o.CookieDomain, CookiePartitioned: o.CookiePartitioned,
	})
	s.lists = eventlist.New(o.Store, o.Log, s.baseURL, o.Keys[0], o.ListCache)
	s.live = livelist.New(o.Store, s.lists, livelist.Options{MaxWatches: o.MaxWatches, MaxAnswering: o.MaxInFlight / 4})
	s.router = newRouter(s.observer)
	ofPages := pages.Options{BaseURL: s.baseURL, Base: base, Home: home(o), Brand: o.BrandName, Development: o.Development, EventsPage: o.EventsPage, Sessions: s.sessions, Now: o.Now}
	if o.OIDC != nil {
		provider := *o.OIDC
		provider.Log = o.Log
		s.provider = oidc.New(provider, s.baseURL+"/sign-in/callback", o.Keys, s.now)
		_, issuer, _ := strings.Cut(o.OIDC.Issuer, "://")
		ofPages.Provider, _, _ = strings.Cut(issuer, "/")
	}
	if o.WorldAccess != nil {
		s.worlds = worlds.New(*o.WorldAccess, o.WorldToken, o.Store.FindCaller, s.now)
	}
	s.pages = pages.New(ofPages)
	requests := newRates[string](o.RateLimit, int(math.Ceil(o.RateLimit)))
	s.signIn = signin.New(signin.Options{
		Store: o.Store, Sessions: s.sessions, Pages: s.pages, Observer: s.observer, Log: o.Log, Provider: s.provider,
		BaseURL: o.BaseURL, Development: o.Development, ReturnOrigins: o.ReturnOrigins,
		MaySend: requests.mayCheck, CountWrong: requests.check,
		Problem: func(err error) (observe.Kind, string) {
			p := problemOf(err)
			return p.kind(), p.message
		},
	})
	writes := newRates[models.ID](o.WriteRate, writeBurst(o.WriteRate))
	if o.EventsPage {
		s.ownEvents = &ownevents.Service{
			Store: o.Store, Pages: s.pages, SignIn: s.signIn, Observer: s.observer,
			BeginReading: s.lists.BeginPage, MayWrite: writes.check,
			CheckEvent: func(members map[string]string) error { return checkEvent(o.Contract.operations, members) },
		}
	}
	s.registerMetrics()

	s.route(o, browsers, requests, writes)

	s.Public = s.router.echo
	s.Admin = s.observer.Admin(o.AdminHosts)
	return s, nil
}

func (s *Server) route(o Options, browsers *browserRules, requests *rates[string], writes *rates[models.ID]) {
	e := s.router.echo
	e.HTTPErrorHandler = s.writeError
	e.Binder = strictBinder{}
	// In this order; then routing.
	e.Pre(s.observe(
		before(browsers.headers),
		before(refuseEmptyHost),
		browsers.cors,
		before(limitHeaderLines),
		s.limitInFlight,
		limitRate(requests),
		s.awaitMigration(min(o.Store.Timeout()/2, maxStartWait)),
		before(browsers.refuseCrossOrigin),
		before(canonicalPath),
	))
	// Then each operation's own middleware; then its handler below.
	gen.RegisterHandlersWithOptions(e, gen.NewStrictHandler(s, []gen.StrictMiddlewareFunc{s.askOwner}), gen.RegisterHandlersOptions{
		OperationMiddlewares: s.operationMiddlewares(o.Contract.operations, writes, setStoreDeadline(o.Store.Timeout())),
	})
	rejectExtraSegments(e)
	s.signIn.Register(s.router)
	if s.ownEvents != nil {
		s.ownEvents.Register(s.router)
	}
	s.pages.RegisterAssets(s.router)
	if o.Docs {
		s.pages.RegisterDocs(s.router, o.Contract.text)
	}
	s.pages.RegisterSecurityTxt(s.router, o.SecurityContacts)
	if len(o.PrivateKeys)+len(o.PublicKeys) > 0 {
		s.pages.RegisterKeySet(s.router)
	}
}

func (s *Server) registerMetrics() {
	s.observer.Register(s.lists.Collectors()...)
	s.observer.Register(s.live.Collectors()...)
	s.observer.Register(s.conns.Collectors()...)
	s.observer.Register(s.signIn.Collectors()...)
	held := s.lists.Held()
	maps.Copy(held, s.live.Held())
	held["requests"], held["connections"] = s.places.Held, s.conns.Held
	if s.provider != nil {
		held["sign_ins"] = s.provider.Held
	}
	if s.worlds != nil {
		s.observer.Register(s.worlds.Questions)
		maps.Copy(held, s.worlds.Held())
	}
	s.observer.RegisterHeld(held)
}

// Bound counts the connections of h as those of clients. Call it before h serves.
func (s *Server) Bound(h *http.Server) { s.conns.Bound(h) }

// Attach makes h the server of Public. Call it before h serves.
func (s *Server) Attach(h *http.Server) {
	h.Handler = s.Public
	h.DisableGeneralOptionsHandler = true // else net/http answers OPTIONS * itself, past limits and log
	// With HTTP/2 the clients would decide the number of responses at once on a connection, and the memory that each takes.
	h.Protocols = new(http.Protocols)
	h.Protocols.SetHTTP1(true)
	s.Bound(h)
}

// Ready starts readiness and the handling of requests: the schema is up to date. Call it once.
func (s *Server) Ready() {
	s.live.Listen()
	s.observer.Readiness.Ready()
}

// StartFailed records a failed attempt to bring the schema up to date, before Ready. It may be called again.
func (s *Server) StartFailed(err error) { s.observer.Readiness.StartFailed(err) }

// Drain ends readiness, ends all waits at once, and makes every response close its connection, so that no proxy sends a request down a
// connection that is about to close.
func (s *Server) Drain() {
	s.observer.Readiness.Drain()
	s.live.Stop()
}

var _ gen.StrictServerInterface = (*Server)(nil)
