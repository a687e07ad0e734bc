package server

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"worldevents/server/internal/backpressure"
	"worldevents/server/internal/contract"
	"worldevents/server/internal/ledger"
	"worldevents/server/internal/session"
)

// fewBodies is how many bodies any client may be sending.
const fewBodies = 8

// formLimit bounds a form.
type formLimit struct {
	size    int           // in bytes
	timeout time.Duration // that it takes to arrive; 0 means that of all requests
	err     error         // beyond these
}

// A largeForm has room for a description of 5,000 characters, of which each may take 12 bytes. It comes from somebody who is
// known, and has the time of a request with as large a body.
var (
	anyForm   = formLimit{8 << 10, 2 * time.Second, errForm}
	largeForm = formLimit{64 << 10, 0, errLargeForm}
)

// sender is whose share a body counts in: the user whom a JWT names, at an address. So a thief of the cookie at another address takes
// nothing from the user, and neither does a stranger at the same address.
type sender struct{ user, address string }

// bodies reads the bodies of requests, and bounds how many are yet to arrive.
type bodies struct {
	arriving *ledger.Ledger[sender]
	sessions *session.Manager
}

// newBodies lets half of the requests in flight have bodies that are yet to arrive. Were it all, a few clients that send slowly would
// shut out all others.
func newBodies(maxInFlight int, sessions *session.Manager) *bodies {
	limit := (maxInFlight + 1) / 2
	return &bodies{ledger.New[sender](ledger.Rule{Limit: limit, Share: max(fewBodies, limit/8), Few: fewBodies}), sessions}
}

// receive calls read, which reads the body of a request, and counts the body as one that is yet to arrive meanwhile. It must come
// before anything else that the request holds or waits for: until a body has ended, net/http does not notice that the client hangs up.
// It returns errOverloaded when the sender has too many such requests, and the error of read.
func (b *bodies) receive(c echo.Context, read func() error) error {
	r := c.Request()
	if r.ContentLength == 0 {
		return read()
	}
	from := b.senderOf(c)
	if !b.arriving.Try(from, 1) {
		closeAfter(c)
		return errOverloaded
	}
	defer b.arriving.Release(from, 1)
	end := backpressure.FromContext(r.Context()).Receive()
	err := read()
	end(err == nil)
	return err
}

// senderOf returns whose share the body of a request counts in. A JWT that has merely expired still names the user.
func (b *bodies) senderOf(c echo.Context) sender {
	from := sender{address: requestFrom(c.Request().Context()).ClientNetwork()}
	for _, token := range session.ReadCookies(c.Request().Header).Tokens() {
		if user, err := b.sessions.Verify(token); err == nil || errors.Is(err, session.ErrExpired) {
			from.user = user.UserID
			break
		}
	}
	return from
}

// closeAfter closes the connection after a response whose request has not been read: else net/http would wait for the rest of it
// before it writes the response.
func closeAfter(c echo.Context) { c.Response().Header().Set("Connection", "close") }

// validate lets only requests pass that fit the contract.
func (b *bodies) validate(op *contract.Operation) echo.MiddlewareFunc {
	return before(func(c echo.Context) error {
		err := b.receive(c, func() error { return op.Validate(c.Request(), c.Param) })
		if errors.Is(err, contract.ErrTooLarge) {
			closeAfter(c)
		}
		return err
	})
}

// receiveForm reads the body that a request for a page has, if any.
func (b *bodies) receiveForm(limit formLimit) func(c echo.Context) error {
	return func(c echo.Context) error {
		r := c.Request()
		if r.ContentLength == 0 {
			return nil
		}
		return b.receive(c, func() error {
			control := http.NewResponseController(c.Response())
			if limit.timeout > 0 {
				control.SetReadDeadline(time.Now().Add(limit.timeout))
			}
			text, err := io.ReadAll(io.LimitReader(r.Body, int64(limit.size)+1))
			if err != nil || len(text) > limit.size {
				closeAfter(c)
				return limit.err
			}
			control.SetReadDeadline(time.Time{}) // nothing more is read until the response has been written
			r.Body = io.NopCloser(bytes.NewReader(text))
			return nil
		})
	}
}
