package provider

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

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
		servicetest.NoError(t, os.WriteFile(filepath.Join(program.Dir, file), []byte(text+"\n"), 0o600))
		if s == nil {
			return
		}
		n := len(s.Log.String())
		s.Signal(syscall.SIGHUP)
		servicetest.Eventually(t, 20*time.Second, "the files are read", func() bool {
			return strings.Contains(s.Log.String()[n:], "SIGHUP: OIDC_CLIENT_SECRET_FILE was read again") // the last of them
		})
	}
	write("client", p.secret)
	write("key", keyA)
	s = program.ServeReady()

	get := func(address, cookie string) *http.Response {
		t.Helper()
		r, _ := http.NewRequest("GET", address, nil)
		r.Header.Set("Cookie", cookie)
		res := servicetest.Must(http.DefaultTransport.RoundTrip(r))(t)
		res.Body.Close()
		return res
	}
	// begin returns the address of the callback, and the cookie of the flow.
	begin := func() (callback, cookie string) {
		t.Helper()
		res := get(s.URL+"/sign-in", "")
		if res.StatusCode != 303 || len(res.Cookies()) != 1 {
			t.Fatalf("sign-in: %d", res.StatusCode)
		}
		u := p.consent(res.Header.Get("Location"), called("subject", "alice"))
		back, _ := url.Parse(s.URL)
		back.Path, back.RawQuery = u.Path, u.RawQuery
		return back.String(), res.Cookies()[0].Name + "=" + res.Cookies()[0].Value
	}
	is := func(what string, want int, callback, cookie string) {
		t.Helper()
		servicetest.Is(t, get(callback, cookie).StatusCode, want, "%s: %s", what, s.Log)
	}
	signIn := func(what string, want int) {
		t.Helper()
		callback, cookie := begin()
		is(what, want, callback, cookie)
	}
	signIn("at first", 303)
	old := p.setSecret("another-client-secret")
	signIn("the old secret", 502)
	callback, cookie := begin()
	write("client", "another-client-secret")
	is("under way", 303, callback, cookie)
	signIn("the new secret", 303)

	callback, cookie = begin()
	write("key", keyB+","+keyA)
	is("under way, and the key is the second", 303, callback, cookie)
	write("key", keyA)
	callback, cookie = begin()
	write("key", keyB)
	is("under way, and the key is gone", 400, callback, cookie)
	signIn("another key", 303)
	for _, secret := range []string{old, "another-client-secret", keyA, keyB} {
		servicetest.Lacks(t, s.Log.String(), secret)
	}
}
