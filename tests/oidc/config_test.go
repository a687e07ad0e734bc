package oidc

import (
	"strings"
	"testing"

	"worldevents/tests/servicetest"
)

// TestStartWithoutProvider: the service serves while the provider is away.
func TestStartWithoutProvider(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	program := servicetest.NewProgram(t, "APP_ENV=production", "OIDC_ISSUER="+p.issuer, "OIDC_CLIENT_ID="+p.clientID, "OIDC_CLIENT_SECRET="+p.secret)
	p.Close()
	s := program.ServeReady()
	if status, body := s.Do("GET", "/sign-in", "", ""); status != 502 || !strings.Contains(body, `"code":"provider_failed"`) {
		t.Errorf("sign-in: %d %s", status, body)
	}
	if status, body := s.Do("GET", "/api/auth/session", "", ""); status != 400 || body != servicetest.SessionNoToken {
		t.Errorf("session: %d %s", status, body)
	}
	if strings.Contains(s.Log.String(), p.secret) {
		t.Errorf("the secret is in the log")
	}
}
