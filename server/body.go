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

type formLimit struct {
	size    int           // in bytes
	timeout time.Duration // for the whole form; 0 leaves the one of all requests
	err     error
}

// A largeForm has room for a description of 5,000 characters of up to 12 bytes each. Only a known user sends one.
var (
	anyForm   = formLimit{8 << 10, 2 * time.Second, errForm}
	largeForm = formLimit{64 << 10, 0, errLargeForm}
)

// receive calls read for the body, and gives the place in flight back meanwhile: net/http bounds the time, and the body costs a connection
// only. It must come before the request acquires or waits for anything: net/http notices that a client hung up only after the body has
// ended.
func receive(c echo.Context, read func() error) error {
	if c.Request().ContentLength != 0 {
		defer requestFrom(c.Request().Context()).place.Pause()()
	}
	return read()
}

func validate(op *contract.Operation) echo.MiddlewareFunc {
	return before(func(c echo.Context) error {
		err := receive(c, func() error { return op.Validate(c.Request(), c.Param) })
		if errors.Is(err, contract.ErrTooLarge) {
			closeAfter(c)
		}
		return err
	})
}

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
