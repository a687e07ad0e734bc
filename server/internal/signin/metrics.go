package signin

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"worldevents/models"
	"worldevents/server/internal/observe"
	"worldevents/server/internal/oidc"
)

// Labels of metrics.
const (
	byForm     = "form"
	byProvider = "provider"

	signInDone           = "signed_in"
	signInRefused        = "refused"
	signInProviderFailed = "provider_failed"
	signInOverloaded     = "overloaded"
	signInFailed         = "failed"
)

func newOutcomes() *prometheus.CounterVec {
	counts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "worldevents_sign_ins_total",
		Help: "Sign-ins that have ended, by way (form, provider) and outcome: signed_in, refused, provider_failed (the identity provider), overloaded, failed (this service). One that leads to the provider, or whose client hung up, has not ended.",
	}, []string{"way", "outcome"})
	for _, way := range []string{byForm, byProvider} {
		for _, outcome := range []string{signInDone, signInRefused, signInProviderFailed, signInOverloaded, signInFailed} {
			counts.WithLabelValues(way, outcome)
		}
	}
	return counts
}

// count counts failed sign-ins of a way, and logs refused ones. Other failures are logged with all errors.
func (s *Service) count(way string) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			err := next(c)
			outcome := s.failure(err)
			if outcome != "" {
				s.outcomes.WithLabelValues(way, outcome).Inc()
			}
			if outcome == signInRefused {
				s.Observer.SecurityEvent(c.Request().Context(), observe.Refused, models.Caller{}, err.Error())
			}
			return err
		}
	}
}

// failure returns the outcome of a failed sign-in, or "".
func (s *Service) failure(err error) string {
	if err == nil || errors.Is(err, context.Canceled) { // the client has hung up
		return ""
	}
	switch status := s.kindOf(err).Status; {
	case status < http.StatusInternalServerError:
		return signInRefused
	case errors.Is(err, oidc.ErrProvider):
		return signInProviderFailed
	case status == http.StatusServiceUnavailable:
		return signInOverloaded
	}
	return signInFailed
}

func (s *Service) kindOf(err error) observe.Kind {
	kind, _ := s.Problem(err)
	return kind
}

// Collectors are the metrics.
func (s *Service) Collectors() []prometheus.Collector { return []prometheus.Collector{s.outcomes} }
