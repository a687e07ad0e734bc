package server

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"worldevents/server/internal/contract"
)

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

// receive calls read, which reads the body of a request, and gives the place in flight back meanwhile: a body takes nothing but its
// connection, and a time that net/http bounds. It must come before anything else that the request holds or waits for: until a body has
// ended, net/http does not notice that the client hangs up.
func receive(c echo.Context, read func() error) error {
	if c.Request().ContentLength != 0 {
		defer requestFrom(c.Request().Context()).place.Pause()()
	}
	return read()
}

// validate lets only requests pass that fit the contract.
func validate(op *contract.Operation) echo.MiddlewareFunc {
	return before(func(c echo.Context) error {
		err := receive(c, func() error { return op.Validate(c.Request(), c.Param) })
		if errors.Is(err, contract.ErrTooLarge) {
			closeAfter(c)
		}
		return err
	})
}

// receiveForm reads the body that a request for a page has, if any.
func receiveForm(limit formLimit) func(c echo.Context) error {
	return func(c echo.Context) error {
		r := c.Request()
		if r.ContentLength == 0 {
			return nil
		}
		return receive(c, func() error {
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
