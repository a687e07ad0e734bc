package server

import (
	"errors"
	"maps"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"worldevents/config/build"
	"worldevents/models"
	"worldevents/server/internal/oidc"
)

// registerProcess registers what there is to say of this process as a whole.
func (m *metrics) registerProcess(store *models.Store) {
	this := build.Read()
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "worldevents_build_info",
		Help: "Always 1. The labels say which build of the program this is.",
		ConstLabels: prometheus.Labels{
			"version": this.Version, "commit": this.Commit, "goversion": this.Go,
		},
	}, func() float64 { return 1 }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "worldevents_schema_version",
		Help: "Number of the database's schema, which is that of its last migration; 0 until the database has been seen.",
	}, func() float64 { return float64(store.Schema()) }))
}

// held returns what requests hold now: how much of it, by its name in metrics.
func (s *Server) held() map[string]func() int {
	all := s.lists.Held()
	maps.Copy(all, s.live.Held())
	all["requests"] = func() int { return int(s.inFlight.Load()) }
	all["bodies"] = s.bodies.Held
	all["slow_responses"] = s.stalled.Stalled
	if s.provider != nil {
		all["sign_ins"] = s.provider.Held
	}
	return all
}

// registerHeld registers what requests hold. The table in package ledger says what bounds it.
func (m *metrics) registerHeld(held map[string]func() int) {
	for of, n := range held {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "worldevents_held",
			Help: "What requests hold now.", ConstLabels: prometheus.Labels{"of": of},
		}, func() float64 { return float64(n()) }))
	}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "worldevents_in_flight_requests",
		Help: "Requests that are being handled, without those that wait for news or for a client who reads slowly.",
	}, func() float64 { return float64(held["requests"]()) }))
}

// The ways to sign in, and how a sign-in ends, as they are called in metrics.
const (
	byForm     = "form"
	byProvider = "provider"

	signInDone           = "signed_in"
	signInRefused        = "refused"
	signInProviderFailed = "provider_failed"
	signInErrorReported  = "error_reported"
	signInOverloaded     = "overloaded"
	signInFailed         = "failed"
)

func newSignInCounts() *prometheus.CounterVec {
	counts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "worldevents_sign_ins_total",
		Help: "Sign-ins that have ended, by way (form, provider) and outcome: signed_in, refused, provider_failed (the identity provider), error_reported (by a callback, which anybody can send), overloaded, failed (this service). One that leads to the provider, or whose client hung up, has not ended.",
	}, []string{"way", "outcome"})
	for _, way := range []string{byForm, byProvider} {
		for _, outcome := range []string{signInDone, signInRefused, signInProviderFailed, signInErrorReported, signInOverloaded, signInFailed} {
			counts.WithLabelValues(way, outcome)
		}
	}
	return counts
}

// countSignIns counts the sign-ins of a way that end with the response.
func (s *Server) countSignIns(way string) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			err := next(c)
			if outcome := signInOutcome(requestFrom(c.Request().Context()), err); outcome != "" {
				s.metrics.signIns.WithLabelValues(way, outcome).Inc()
			}
			return err
		}
	}
}

// signInOutcome returns how a sign-in has ended, or "" if it has not.
func signInOutcome(req *request, err error) string {
	switch {
	case err == nil && req.signedIn:
		return signInDone
	case err == nil && req.code == "", err != nil && isClientGone(err):
		return ""
	case err == nil:
		return signInRefused // with the page of the form
	}
	switch p := problemOf(err); {
	case p.status < 500:
		return signInRefused
	case errors.Is(err, oidc.ErrReported):
		return signInErrorReported
	case p.code == errProvider.code:
		return signInProviderFailed
	case p.code == errOverloaded.code:
		return signInOverloaded
	}
	return signInFailed
}
