package oidc

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"golang.org/x/sync/semaphore"
)

const (
	// maxResponse bounds a response of the provider, in bytes.
	maxResponse = 1 << 20
	// maxConcurrent bounds the requests to the provider that are under way at once. Beyond it sign-ins fail at once, so
	// that a provider which hangs does not take the rest of the service along.
	maxConcurrent = 64
)

// boundedTransport reads each response whole, up to maxResponse, and admits as many requests at once as slots has.
type boundedTransport struct {
	next  http.RoundTripper
	slots *semaphore.Weighted
}

func (t *boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !t.slots.TryAcquire(1) {
		return nil, errors.New("too many sign-ins at once")
	}
	defer t.slots.Release(1)
	res, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxResponse+1))
	if err == nil && len(body) > maxResponse {
		err = errors.New("response too large")
	}
	if err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}
