package server

import (
	"math"
	"net/http"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"

	"worldevents/models"
	"worldevents/server/internal/contract"
)

// maxRates is how many clients, or users, are remembered, in 10 MB. Newer ones push out older ones, who begin anew with a whole burst:
// many clients can only make the limit wider, and have nobody refused.
const maxRates = 1 << 16

// rates limits how often each client, or user, may do something.
type rates[Key comparable] struct {
	perSecond rate.Limit
	burst     int
	limiters  *lru.Cache[Key, *rate.Limiter]
}

func newRates[Key comparable](perSecond float64, burst int) *rates[Key] {
	limiters, _ := lru.New[Key, *rate.Limiter](maxRates) // fails only for a size below 1
	return &rates[Key]{rate.Limit(perSecond), burst, limiters}
}

// allow counts one time more, and reports whether it is within the rate.
func (r *rates[Key]) allow(key Key) bool {
	limiter, ok := r.limiters.Get(key)
	if !ok {
		limiter = rate.NewLimiter(r.perSecond, r.burst)
		if first, found, _ := r.limiters.PeekOrAdd(key, limiter); found {
			limiter = first
		}
	}
	return limiter.Allow()
}

// unlimited is the middleware of a limit that is off.
func unlimited(next echo.HandlerFunc) echo.HandlerFunc { return next }

// limitRate responds 429 to a client that asks more often than perSecond; 0 means no limit.
func limitRate(perSecond float64) echo.MiddlewareFunc {
	if perSecond <= 0 {
		return unlimited
	}
	clients := newRates[string](perSecond, int(math.Ceil(perSecond)))
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if !clients.allow(requestFrom(c.Request().Context()).ClientNetwork()) {
				return errRate
			}
			return next(c)
		}
	}
}

// writeBurst is how many writes a user may make at once, to whom so many a second are allowed. Nobody clicks so often, and a program
// that runs wild is stopped before anybody notices.
func writeBurst(perSecond float64) int { return int(math.Ceil(10 * perSecond)) }

// limitWrites responds 429 to a user who writes more often than perSecond, over all operations that it is made for; 0
// means no limit. It comes after requireAuth and before the body is read, so that a refused write costs little.
func limitWrites(perSecond float64) func(*contract.Operation) echo.MiddlewareFunc {
	if perSecond <= 0 {
		return func(*contract.Operation) echo.MiddlewareFunc { return unlimited }
	}
	users := newRates[models.ID](perSecond, writeBurst(perSecond))
	return func(op *contract.Operation) echo.MiddlewareFunc {
		if op.Method == http.MethodGet {
			return unlimited
		}
		return func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error {
				if !users.allow(requestFrom(c.Request().Context()).caller.UserID) {
					return errRate
				}
				return next(c)
			}
		}
	}
}
