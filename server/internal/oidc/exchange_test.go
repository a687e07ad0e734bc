package oidc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"
)

// newIssuer serves metadata in which $ is the issuer. Its token endpoint responds with token.
func newIssuer(t *testing.T, metadata, token string) (issuer string) {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, strings.ReplaceAll(metadata, "$", server.URL))
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, token)
	})
	return server.URL
}

const (
	usual       = `{"issuer":"$","authorization_endpoint":"$/authorize","token_endpoint":"$/token","jwks_uri":"$/jwks"}`
	namesItself = `{"issuer":"$","authorization_endpoint":"$/authorize","token_endpoint":"$/token","jwks_uri":"$/jwks","authorization_response_iss_parameter_supported":true}`
)

func TestAuthCodeURL(t *testing.T) {
	for _, test := range []struct {
		name, metadata string
		want           error
	}{
		{"usual", usual, nil},
		{"no metadata", `{}`, ErrProvider},
		{"no JSON", `<html>`, ErrProvider},
		{"another issuer", strings.Replace(usual, `"$"`, `"$/x"`, 1), ErrProvider},
		{"no authorization endpoint", strings.Replace(usual, "$/authorize", "", 1), ErrProvider},
		{"a relative token endpoint", strings.Replace(usual, "$/token", "/token", 1), ErrProvider},
		{"a token endpoint without a host", strings.Replace(usual, "$/token", "https:///token", 1), ErrProvider},
		{"keys of another scheme", strings.Replace(usual, "$/jwks", "file://host/etc/keys", 1), ErrProvider},
		{"a relative UserInfo endpoint", strings.Replace(usual, `"jwks_uri"`, `"userinfo_endpoint":"/userinfo","jwks_uri"`, 1), nil},
		{"too large", usual + strings.Repeat(" ", maxResponse), ErrProvider},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, _ := newTestProvider(newIssuer(t, test.metadata, ""))
			f := p.NewFlow("/docs")
			to, err := p.AuthCodeURL(context.Background(), "192.0.2.1", f)
			if !errors.Is(err, test.want) {
				t.Fatal(err)
			}
			if test.want != nil {
				return
			}
			u, _ := url.Parse(to)
			q := u.Query()
			if u.Path != "/authorize" || q.Get("state") != f.state() || q.Get("nonce") != f.nonce() ||
				q.Get("code_challenge") != oauth2.S256ChallengeFromVerifier(f.verifier()) || q.Get("code_challenge_method") != "S256" {
				t.Error(to)
			}
			if strings.Contains(to, f.Cookie()) || strings.Contains(to, f.verifier()) {
				t.Errorf("a secret is in %s", to)
			}
		})
	}
}

// A provider that has TLS has it at all of its endpoints.
func TestEndpointsOfTLSIssuer(t *testing.T) {
	const issuer = "https://provider.example"
	for endpoint, want := range map[string]error{"none": nil, "$/authorize": ErrProvider, "$/token": ErrProvider, "$/jwks": ErrProvider} {
		t.Run(endpoint, func(t *testing.T) {
			plain := strings.Replace(usual, endpoint, strings.Replace(endpoint, "$", "http://provider.example", 1), 1)
			p, _ := newTestProvider(issuer)
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

func TestExchangeRefuses(t *testing.T) {
	const refusal = `{"error":"invalid_client","error_description":"the secret is s3cret"}`
	for _, test := range []struct {
		name, metadata, token, callback string
		after                           time.Duration
		want                            error
	}{
		{"expired", usual, refusal, "code=c", FlowTTL, ErrFlow},
		{"no code", usual, refusal, "", 0, ErrFlow},
		{"denied", usual, refusal, "error=access_denied", 0, ErrDenied},
		{"denied by another issuer", usual, refusal, "error=access_denied&iss=https://other.example", 0, ErrProvider},
		{"denied without an issuer", namesItself, refusal, "error=access_denied", 0, ErrDenied},
		{"late", usual, refusal, "error=temporarily_unavailable&error_description=authentication_expired", 0, ErrLate},
		{"error", usual, refusal, "error=server_error&code=c", 0, ErrProvider},
		{"another issuer", usual, refusal, "code=c&iss=https://other.example", 0, ErrProvider},
		{"no issuer where there always is one", namesItself, refusal, "code=c", 0, ErrProvider},
		{"code of another flow", usual, `{"error":"invalid_grant"}`, "code=c", 0, ErrProvider},
		{"client refused", usual, refusal, "code=c", 0, ErrProvider},
		{"response is no JSON", usual, "s3cret", "code=c", 0, ErrProvider},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, now := newTestProvider(newIssuer(t, test.metadata, test.token))
			f := p.NewFlow("/docs")
			*now = now.Add(test.after)
			callback, _ := url.ParseQuery(test.callback)
			user, err := p.Exchange(context.Background(), "192.0.2.1", f, callback)
			if !errors.Is(err, test.want) || user != (Identity{}) {
				t.Fatalf("%+v, %v", user, err)
			}
			if strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), f.verifier()) {
				t.Errorf("a secret is in %q", err)
			}
		})
	}
}

func TestWrapErr(t *testing.T) {
	for _, test := range []struct {
		name, step string
		err        error
		want       string
	}{
		{"network", "token", &url.Error{Op: "Post", URL: "https://provider.example/token?code=s3cret", Err: errors.New("connection refused")}, `identity provider failed: token: "connection refused"`},
		{"refusal", "token", &oauth2.RetrieveError{ErrorCode: "invalid_client", Body: []byte("s3cret")}, "identity provider failed: token: refused with invalid_client"},
		{"unknown refusal", "token", &oauth2.RetrieveError{ErrorCode: "x\n"}, "identity provider failed: token: refused with an error code that is not registered"},
		{"unknown refusal with a status", "token", &oauth2.RetrieveError{ErrorCode: "x\n", Response: &http.Response{StatusCode: 418}}, "identity provider failed: token: HTTP status 418 without a registered error code"},
		{"line feed", "ID token", errors.New("a\nb"), `identity provider failed: ID token: "a\nb"`},
		{"UserInfo", "UserInfo", errors.New(`400 Bad Request: {"token":"s3cret"}`), "identity provider failed: UserInfo: unusable response"},
		{"long", "ID token", errors.New(strings.Repeat("x", 1000)), `identity provider failed: ID token: "` + strings.Repeat("x", 200) + `"`},
		{"the browser is gone", "token", &url.Error{Op: "Post", Err: context.Canceled}, `Post "": context canceled`},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := wrapErr(test.step, test.err)
			if err.Error() != test.want || errors.Is(err, ErrProvider) == errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
}

func TestValidSubject(t *testing.T) {
	for _, test := range []struct {
		sub  string
		want bool
	}{
		{"a", true}, {"auth0|5 ~!", true}, {strings.Repeat("x", 255), true},
		{"", false}, {strings.Repeat("x", 256), false}, {"é", false}, {"a\n", false}, {"\x7f", false}, {"\xff", false},
	} {
		if got := validSubject(test.sub); got != test.want {
			t.Errorf("%q: %v", test.sub, got)
		}
	}
}
