package server

import (
	"math"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"

	"worldevents/models"
	"worldevents/server/internal/signin"
)

// maxRates is the number of clients or users that are remembered, in 10 MB. A new one displaces the oldest, which starts again with a whole
// burst: many clients can only widen the limit.
const maxRates = 1 << 16

// rates limits the rate of each client or user. A nil one limits nothing.
type rates[Key comparable] struct {
	perSecond rate.Limit
	burst     int
	limiters  *lru.Cache[Key, *rate.Limiter]
}

func newRates[Key comparable](perSecond float64, burst int) *rates[Key] {
	if perSecond <= 0 {
		return nil
	}
	limiters, _ := lru.New[Key, *rate.Limiter](maxRates) // fails only for a size below 1
	return &rates[Key]{rate.Limit(perSecond), burst, limiters}
}

func (r *rates[Key]) of(key Key) *rate.Limiter {
	limiter, ok := r.limiters.Get(key)
	if !ok {
		limiter = rate.NewLimiter(r.perSecond, r.burst)
		if first, found, _ := r.limiters.PeekOrAdd(key, limiter); found {
			limiter = first
		}
	}
	return limiter
}

// check counts one event, and returns errRate beyond the rate.
func (r *rates[Key]) check(key Key) error {
	if r != nil && !r.of(key).Allow() {
		return errRate
	}
	return nil
}

// mayCheck returns the result of check without counting.
func (r *rates[Key]) mayCheck(key Key) error {
	if r != nil && r.of(key).Tokens() < 1 {
		return errRate
	}
	return nil
}

// limitRate limits each client's requests. Of a provider's logout tokens it counts only the wrong ones.
func limitRate(rates *rates[string]) echo.MiddlewareFunc {
	return before(func(c echo.Context) error {
		if c.Request().URL.Path == signin.LogoutPath {
			return nil
		}
		return rates.check(requestFrom(c.Request().Context()).ClientNetwork())
	})
}

// writeBurst is the number of writes that a user may make at once: more than anybody clicks, and little for a program that runs wild.
func writeBurst(perSecond float64) int { return int(math.Ceil(10 * perSecond)) }

// limitWrites comes after requireAuth and before the body is read, so that a refused write costs little.
func limitWrites(writes *rates[models.ID]) echo.MiddlewareFunc {
	return before(func(c echo.Context) error { return writes.check(requestFrom(c.Request().Context()).caller.UserID) })
}
