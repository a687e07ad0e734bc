package oidc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

const usual = `{"issuer":"$","authorization_endpoint":"$/authorize","token_endpoint":"$/token","jwks_uri":"$/jwks"}`

// A provider that has TLS has it at all of its endpoints.
func TestEndpointsOfTLSIssuer(t *testing.T) {
	const issuer = "https://provider.example"
	for endpoint, want := range map[string]error{"none": nil, "$/authorize": ErrProvider, "$/token": ErrProvider, "$/jwks": ErrProvider} {
		t.Run(endpoint, func(t *testing.T) {
			plain := strings.Replace(usual, endpoint, strings.Replace(endpoint, "$", "http://provider.example", 1), 1)
			p := newTestProvider(issuer)
			p.client.Transport = roundTripper(func(*http.Request) (*http.Response, error) {
				body := io.NopCloser(strings.NewReader(strings.ReplaceAll(plain, "$", issuer)))
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}, nil
			})
			if _, err := p.AuthCodeURL(context.Background(), "192.0.2.1", p.NewFlow("/docs")); !errors.Is(err, want) {
				t.Error(err)
			}
		})
	}
}
