package oidc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"
	"golang.org/x/oauth2"
)

// maxResponse bounds a response of the provider, in bytes.
const maxResponse = 1 << 20

// boundedTransport reads each response whole, up to maxResponse. It drops the body of a GET without a 200, which libraries would repeat in
// errors. Of a token response, the only one to a POST, it passes only the used members.
type boundedTransport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
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
	if r.Method == http.MethodPost {
		body = usedMembers(body)
		res.Header.Set("Content-Type", "application/json") // some say text/plain
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}

// usedMembers filters a token response (RFC 6749 sections 5.1 and 5.2). A text that is no object has no members.
func usedMembers(body []byte) []byte {
	c, _ := parseClaims(body, true)
	used := make(map[string]string)
	for _, name := range []string{"access_token", "id_token", "error"} {
		used[name] = c.text(name)
	}
	text, _ := json.Marshal(used) // texts can always be written
	return text
}

// get returns the members of a document of the provider, authorized by tokens if there are any.
func (p *Provider) get(ctx context.Context, address string, tokens *oauth2.Token) (claims, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	if tokens != nil {
		tokens.SetAuthHeader(r)
	}
	res, err := p.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	return parseClaims(text, tokens == nil)
}
