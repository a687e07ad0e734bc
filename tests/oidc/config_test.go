package oidc

import (
	"strings"
	"testing"

	"worldevents/tests/servicetest"
)

// TestConfiguration: what can never work, or is unsafe, is refused at start, all at once and without the secret.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	const secret = "a-client-secret-nobody-should-see"
	good := servicetest.NewProgram(t, "OIDC_ISSUER=https://login.example.org/people", "OIDC_CLIENT_ID=worldevents",
		"OIDC_CLIENT_SECRET="+secret, "RETURN_ORIGINS=https://app.example.org,http://localhost:5173")
	good.MustRun("migrate")
	good.With("APP_ENV=production").MustRun("migrate")
	good.With("OIDC_CLIENT_SECRET=").MustRun("migrate")
	good.With("OIDC_ISSUER=http://login.example.org").MustRun("migrate") // in development
	good.With("OIDC_ISSUER=http://localhost:8081", "APP_ENV=production").MustRun("migrate")
	good.With("OIDC_ISSUER=http://127.0.0.1:8081", "APP_ENV=production").MustRun("migrate")

	for env, faults := range map[string][]string{
		"OIDC_ISSUER=":                                     {"OIDC_ISSUER: is required with OIDC_CLIENT_ID and OIDC_CLIENT_SECRET"},
		"OIDC_CLIENT_ID=":                                  {"OIDC_CLIENT_ID: is required"},
		"OIDC_ISSUER=http://login.example.org":             {"OIDC_ISSUER: must be https in production"},
		"OIDC_ISSUER=http://localhost.example.org":         {"OIDC_ISSUER: must be https in production"},
		"OIDC_ISSUER=login.example.org":                    {"OIDC_ISSUER: must be an https address"},
		"OIDC_ISSUER=https://login.example.org?tenant=1":   {"OIDC_ISSUER: must be an https address"},
		"OIDC_ISSUER=https://me:pass@login.example.org":    {"OIDC_ISSUER: must be an https address"},
		"OIDC_SCOPES=profile email":                        {"OIDC_SCOPES: must name openid"},
		"RETURN_ORIGINS=https://app.example.org/":          {"RETURN_ORIGINS: "},
		"RETURN_ORIGINS=https://App.example.org":           {"RETURN_ORIGINS: "},
		"RETURN_ORIGINS=https://app.example.org:443":       {"RETURN_ORIGINS: "},
		"RETURN_ORIGINS=https://*.example.org":             {"RETURN_ORIGINS: "},
		"RETURN_ORIGINS=*":                                 {"RETURN_ORIGINS: "},
		"RETURN_ORIGINS=null":                              {"RETURN_ORIGINS: "},
		"RETURN_ORIGINS=javascript://x":                    {"RETURN_ORIGINS: "},
		"OIDC_ISSUER=x OIDC_CLIENT_ID= RETURN_ORIGINS=app": {"OIDC_ISSUER: ", "OIDC_CLIENT_ID: ", "RETURN_ORIGINS: "},
	} {
		t.Run(env, func(t *testing.T) {
			variables := strings.Fields(env)
			if strings.HasPrefix(env, "OIDC_SCOPES") {
				variables = []string{env}
			}
			stdout, stderr, status := good.For(t).With("APP_ENV=production").With(variables...).Run("migrate")
			if status != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 {
				t.Errorf("status %d, stdout %q, stderr %q", status, stdout, stderr)
			}
			for _, fault := range faults {
				if !strings.Contains(stderr, fault) {
					t.Errorf("%q does not say %q", stderr, fault)
				}
			}
			if strings.Contains(stderr, secret) || strings.Contains(stderr, "pass") {
				t.Errorf("a secret is shown: %q", stderr)
			}
		})
	}
}

// TestStartWithoutProvider: the service serves while the provider is away.
func TestStartWithoutProvider(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	program := servicetest.NewProgram(t, "APP_ENV=production", "OIDC_ISSUER="+p.Issuer(), "OIDC_CLIENT_ID="+p.ClientID, "OIDC_CLIENT_SECRET="+p.ClientSecret)
	p.Server.Close()
	s := program.ServeReady()
	if status, body := s.Do("GET", "/sign-in", "", ""); status != 502 || !strings.Contains(body, `"code":"provider_failed"`) {
		t.Errorf("sign-in: %d %s", status, body)
	}
	if status, body := s.Do("GET", "/api/auth/session", "", ""); status != 400 || body != servicetest.SessionNoToken {
		t.Errorf("session: %d %s", status, body)
	}
	if strings.Contains(s.Log.String(), p.ClientSecret) {
		t.Errorf("the secret is in the log")
	}
}
