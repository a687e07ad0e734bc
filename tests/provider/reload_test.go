package provider

import (
	"net/http"
	"path/filepath"
	"testing"

	"worldevents/tests/servicetest"
)

// The provider gives the service another secret, and the keys of the service change: sign-ins succeed before and after, also one
// that was under way, unless the key is gone that it began with.
func TestReload(t *testing.T) {
	t.Parallel()
	const keyA, keyB = "a-key-of-this-test-9b1c3d5e7f80a2c4e6", "b-key-of-this-test-2f4a6c8e0b1d3f5a7c"
	p := newProvider(t)
	program := servicetest.NewProgram(t, "APP_ENV=production", "OIDC_ISSUER="+p.issuer, "OIDC_CLIENT_ID="+p.clientID, "LOG_FORMAT=json",
		"OIDC_CLIENT_SECRET_FILE=client", "JWT_SECRET=", "JWT_SECRET_FILE=key")
	var s *servicetest.Process
	write := func(file, text string) {
		t.Helper()
		servicetest.WriteSecret(t, filepath.Join(program.Dir, file), text+"\n")
		if s != nil {
			s.HangUp("SIGHUP: OIDC_CLIENT_SECRET_FILE was read again") // the last of them
		}
	}
	write("client", p.secret)
	write("key", keyA)
	s = program.ServeReady()

	// begin begins a sign-in, and returns a function that ends it with a status.
	begin := func() (ends func(what string, want int)) {
		t.Helper()
		browser := servicetest.NewBrowser(s.URL, http.DefaultTransport)
		away := browser.Do("GET", "/sign-in", "")
		away.Is(t, 303)
		callback := p.consent(away.Header.Get("Location"), called("subject", "alice")).RequestURI()
		return func(what string, want int) {
			t.Helper()
			servicetest.Is(t, browser.Do("GET", callback, "").Status, want, "%s: %s", what, s.Log)
		}
	}
	signIn := func(what string, want int) {
		t.Helper()
		begin()(what, want)
	}
	signIn("at first", 303)
	old := p.setSecret("another-client-secret")
	signIn("the old secret", 502)
	ends := begin()
	write("client", "another-client-secret")
	ends("under way", 303)
	signIn("the new secret", 303)

	ends = begin()
	write("key", keyB+","+keyA)
	ends("under way, and the key is the second", 303)
	write("key", keyA)
	ends = begin()
	write("key", keyB)
	ends("under way, and the key is gone", 400)
	signIn("another key", 303)
	for _, secret := range []string{old, "another-client-secret", keyA, keyB} {
		servicetest.Lacks(t, s.Log.String(), secret)
	}
}
