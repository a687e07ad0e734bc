package signin

import (
	"errors"
	"log/slog"
	"net/url"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"worldevents/models"
	"worldevents/server/internal/observe"
	"worldevents/server/internal/oidc"
	"worldevents/server/internal/pages"
	"worldevents/server/internal/session"
)

var (
	// ErrForm is returned for a body that is no form.
	ErrForm = errors.New("not a form")
	// ErrUnknownHost is returned in development for a Host that may lead here from another name.
	ErrUnknownHost = errors.New("unknown host")
	// ErrNotTopLevel is returned for a sign-in that no window shows.
	ErrNotTopLevel = errors.New("not a top-level navigation")
)

// Options of a Service, as in package server.
type Options struct {
	Store    *models.Store
	Sessions *session.Manager
	Pages    *pages.Pages
	Observer *observe.Observer
	Log      *slog.Logger
	// Problem returns the kind of the response to err, and its message.
	Problem  func(err error) (observe.Kind, string)
	Provider *oidc.Provider // nil means none

	BaseURL       *url.URL
	Development   bool
	ReturnOrigins []string
	// MaySend returns an error for an address beyond its rate, and CountWrong counts a wrong logout token of it.
	MaySend, CountWrong func(address string) error
}
type Service struct {
	Options
	flowPrefix string
	outcomes   *prometheus.CounterVec
}

// LogoutPath receives the logout tokens of the provider.
const LogoutPath = "/sign-in/back-channel-logout"

func New(o Options) *Service { return &Service{o, flowCookiePrefix(o), newOutcomes()} }

// Register serves sign-out and the sessions, sign-in by name in development, and sign-in with a provider if there is one. In production
// /sign-in leads to the provider.
func (s *Service) Register(r pages.Router) {
	onErrors := pages.ShowErrors("The sign-in did not work", "/sign-in", "Sign in again")
	r.Post("signOut", "/sign-out", s.WithDeadline(s.signOut), pages.ShowErrors("The sign-out did not work", "/sessions", "Your sessions"))
	if s.Development {
		r.Get("showSignIn", "/sign-in", s.signInPage, s.refuseUnknownHost)
		r.Post("signIn", "/sign-in", ParseForm(s.signIn), onErrors, s.count(byForm), s.refuseUnknownHost)
	}
	if s.Provider != nil {
		begin := "/sign-in"
		if s.Development {
			begin = "/sign-in/provider"
		}
		failure := s.kindOf(oidc.ErrProvider)
		r.Get("beginSignIn", begin, s.beginSignIn, onErrors, s.count(byProvider)).Expect(failure)
		r.Get("finishSignIn", "/sign-in/callback", s.finishSignIn, onErrors, s.count(byProvider)).Expect(failure)
		r.Post("backChannelLogout", LogoutPath, ParseForm(s.backChannelLogout)).Expect(failure)
	}
	onErrors = pages.ShowErrors("Your sessions", "/sessions", "Show the sessions")
	r.Get("showSessions", "/sessions", s.WithDeadline(s.sessionsPage), onErrors)
	r.Post("endSession", "/sessions/end", s.WithDeadline(ParseForm(s.fromCurrent(s.endSession))), onErrors)
	r.Post("endOtherSessions", "/sessions/end-others", s.WithDeadline(ParseForm(s.fromCurrent(s.endOtherSessions))), onErrors)
}

// WithDeadline gives all store calls of a request one deadline, from when its body has been read.
func (s *Service) WithDeadline(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		c.SetRequest(r.WithContext(s.Store.WithDeadline(r.Context())))
		return next(c)
	}
}

// ParseForm refuses a body that is no form.
func ParseForm(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := c.Request().ParseForm(); err != nil {
			return ErrForm
		}
		return next(c)
	}
}
