package server

import (
	"math"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"

	"worldevents/models"
	"worldevents/server/internal/signin"
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

// newRates returns nil for a rate of 0, which is no limit.
func newRates[Key comparable](perSecond float64, burst int) *rates[Key] {
	if perSecond <= 0 {
		return nil
	}
	limiters, _ := lru.New[Key, *rate.Limiter](maxRates) // fails only for a size below 1
	return &rates[Key]{rate.Limit(perSecond), burst, limiters}
}

// of returns the limiter of a key.
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

// check counts one time more. It returns errRate beyond the rate.
func (r *rates[Key]) check(key Key) error {
	if r != nil && !r.of(key).Allow() {
		return errRate
	}
	return nil
}

// mayCheck returns errRate if check would, and counts nothing.
func (r *rates[Key]) mayCheck(key Key) error {
	if r != nil && r.of(key).Tokens() < 1 {
		return errRate
	}
	return nil
}

// limit responds 429 to a client or user that asks more often than rates allow.
func limit[Key comparable](rates *rates[Key], whose func(*request) Key) echo.MiddlewareFunc {
	if rates == nil {
		return func(next echo.HandlerFunc) echo.HandlerFunc { return next }
	}
	return before(func(c echo.Context) error { return rates.check(whose(requestFrom(c.Request().Context()))) })
}

// limitRate limits how often a client may ask. A provider's logout tokens count once they have been found wrong.
func limitRate(rates *rates[string]) echo.MiddlewareFunc {
	return before(func(c echo.Context) error {
		if c.Request().URL.Path == signin.LogoutPath {
			return nil
		}
		return rates.check(requestFrom(c.Request().Context()).ClientNetwork())
	})
}

// writeBurst is how many writes a user may make at once, to whom so many a second are allowed. Nobody clicks so often, and a program
// that runs wild is stopped before anybody notices.
func writeBurst(perSecond float64) int { return int(math.Ceil(10 * perSecond)) }

// newWriteRates limits how often a user may write, over all operations and forms that share it.
func newWriteRates(perSecond float64) *rates[models.ID] {
	return newRates[models.ID](perSecond, writeBurst(perSecond))
}

// limitWrites comes after requireAuth and before the body is read, so that a refused write costs little.
func limitWrites(writes *rates[models.ID]) echo.MiddlewareFunc {
	return limit(writes, func(req *request) models.ID { return req.caller.UserID })
}
