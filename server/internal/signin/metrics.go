package signin

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"worldevents/server/internal/observe"
	"worldevents/server/internal/oidc"
)

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

func newOutcomes() *prometheus.CounterVec {
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

// count counts the sign-ins of a way. Ends means that a request without an error ends one, and does not lead to the provider.
func (s *Service) count(way string, ends bool) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			err := next(c)
			if outcome := s.outcome(c.Response().Status, err, ends); outcome != "" {
				s.outcomes.WithLabelValues(way, outcome).Inc()
			}
			return err
		}
	}
}

// outcome returns how a sign-in has ended, or "" if it has not.
func (s *Service) outcome(status int, err error, ends bool) string {
	switch {
	case err == nil && !ends, errors.Is(err, context.Canceled): // the client has hung up
		return ""
	case err == nil && status >= http.StatusBadRequest:
		return signInRefused // with the page of the form
	case err == nil:
		return signInDone
	}
	switch status := s.kindOf(err).Status; {
	case status < http.StatusInternalServerError:
		return signInRefused
	case errors.Is(err, oidc.ErrReported):
		return signInErrorReported
	case errors.Is(err, oidc.ErrProvider):
		return signInProviderFailed
	case status == http.StatusServiceUnavailable:
		return signInOverloaded
	}
	return signInFailed
}

// kindOf returns what responses that are an error are counted by.
func (s *Service) kindOf(err error) observe.Kind {
	kind, _ := s.Problem(err)
	return kind
}

// Collectors are the metrics.
func (s *Service) Collectors() []prometheus.Collector { return []prometheus.Collector{s.outcomes} }
