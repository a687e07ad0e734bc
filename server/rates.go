package server

import (
	"math"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"

	"worldevents/models"
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

// limit responds 429 to a client or user that asks more often than perSecond, after a burst; 0 means no limit.
func limit[Key comparable](perSecond float64, burst int, whose func(*request) Key) echo.MiddlewareFunc {
	if perSecond <= 0 {
		return func(next echo.HandlerFunc) echo.HandlerFunc { return next }
	}
	rates := newRates[Key](perSecond, burst)
	return before(func(c echo.Context) error {
		if !rates.allow(whose(requestFrom(c.Request().Context()))) {
			return errRate
		}
		return nil
	})
}

// limitRate limits how often a client may ask.
func limitRate(perSecond float64) echo.MiddlewareFunc {
	return limit(perSecond, int(math.Ceil(perSecond)), func(req *request) string { return req.ClientNetwork() })
}

// writeBurst is how many writes a user may make at once, to whom so many a second are allowed. Nobody clicks so often, and a program
// that runs wild is stopped before anybody notices.
func writeBurst(perSecond float64) int { return int(math.Ceil(10 * perSecond)) }

// limitWrites limits how often a user may write, over all operations that it stands in front of. It comes after requireAuth and before
// the body is read, so that a refused write costs little.
func limitWrites(perSecond float64) echo.MiddlewareFunc {
	return limit(perSecond, writeBurst(perSecond), func(req *request) models.ID { return req.caller.UserID })
}
