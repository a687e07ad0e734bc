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

// Errors of this package. The service's table says what clients get.
var (
	// ErrForm is returned for a body that is no form.
	ErrForm = errors.New("not a form")
	// ErrUnknownHost is returned in development for a Host that may be somebody else's.
	ErrUnknownHost = errors.New("unknown host")
	// ErrNotTopLevel is returned for a sign-in that a page has a browser begin unseen.
	ErrNotTopLevel = errors.New("not what a window shows")
)

// Options of a Service.
type Options struct {
	Store    *models.Store
	Sessions *session.Manager
	Pages    *pages.Pages
	Observer *observe.Observer
	Log      *slog.Logger
	// Problem returns what responses with err are counted by, and what they tell people.
	Problem func(err error) (observe.Kind, string)
	// Provider is the identity provider; nil means none.
	Provider *oidc.Provider

	// BaseURL is the public address.
	BaseURL *url.URL
	// Development means that anybody signs in by a name, and cookies for plain HTTP.
	Development bool
	// MaySend returns an error if an address has used up its rate, and CountWrong counts a logout token of it that was wrong.
	MaySend, CountWrong func(address string) error

	// ReturnOrigins are the exact origins, besides the service's own paths, that a sign-in may lead back to.
	ReturnOrigins []string
}

// Service begins and ends sessions. Its methods may be called concurrently.
type Service struct {
	Options
	flowPrefix string // of the cookies that keep sign-ins at the provider
	outcomes   *prometheus.CounterVec
}

// LogoutPath is where the provider sends its logout tokens.
const LogoutPath = "/sign-in/back-channel-logout"

// New returns a Service.
func New(o Options) *Service { return &Service{o, flowCookiePrefix(o), newOutcomes()} }

// Register serves the pages around the session: sign-out and the user's sessions always, sign-in by name in development, and
// sign-in with an identity provider if there is one. In production /sign-in leads straight to the provider.
func (s *Service) Register(r pages.Router) {
	r.Post("signOut", "/sign-out", s.WithDeadline(s.signOut), pages.ShowErrors("The sign-out did not work", "/sessions", "Your sessions"))
	if s.Development {
		r.Get("showSignIn", "/sign-in", s.signInPage, s.refuseUnknownHost)
		r.Post("signIn", "/sign-in", ParseForm(s.signIn), s.count(byForm), s.refuseUnknownHost)
	}
	if s.Provider != nil {
		begin := "/sign-in"
		if s.Development {
			begin = "/sign-in/provider"
		}
		onErrors, failure := pages.ShowErrors("The sign-in did not work", "/sign-in", "Sign in again"), s.kindOf(oidc.ErrProvider)
		r.Get("beginSignIn", begin, s.beginSignIn, onErrors, s.count(byProvider)).Expect(failure)
		r.Get("finishSignIn", "/sign-in/callback", s.finishSignIn, onErrors, s.count(byProvider)).Expect(failure)
		r.Post("backChannelLogout", LogoutPath, ParseForm(s.backChannelLogout)).Expect(failure)
	}
	onErrors := pages.ShowErrors("Your sessions", "/sessions", "Show the sessions")
	r.Get("showSessions", "/sessions", s.WithDeadline(s.sessionsPage), onErrors)
	r.Post("endSession", "/sessions/end", s.WithDeadline(ParseForm(s.fromLiveSession(s.endSession))), onErrors)
	r.Post("endOtherSessions", "/sessions/end-others", s.WithDeadline(ParseForm(s.fromLiveSession(s.endOtherSessions))), onErrors)
}

// WithDeadline gives all store calls of a request one deadline, counted from when its body has been read.
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
