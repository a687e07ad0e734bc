package oidc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// maxResponse bounds a response of the provider, in bytes.
const maxResponse = 1 << 20

// boundedTransport reads each response whole, up to maxResponse. A GET that does not return 200 fails without its body,
// which libraries would repeat in their errors.
type boundedTransport struct{ next http.RoundTripper }

func (t boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if r.Method == http.MethodGet && res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP status %d", res.StatusCode)
	}
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
