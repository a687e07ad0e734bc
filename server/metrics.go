package server

import (
	"errors"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

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
				s.signIns.WithLabelValues(way, outcome).Inc()
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
	case err == nil && req.Code == "", err != nil && isClientGone(err):
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
