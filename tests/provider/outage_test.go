package provider

import (
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// count counts the requests to an endpoint, which go on to the provider.
func (p *provider) count(endpoint string) *atomic.Int64 {
	n, usual := new(atomic.Int64), p.usual(endpoint)
	p.respond(endpoint, func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		usual(w, r)
	})
	return n
}

// TestKeysOfProvider: keys are fetched when they change, and only then.
func TestKeysOfProvider(t *testing.T) {
	p, s := start(t)
	fetched, discovered := p.count("keys"), p.count("openid-configuration")
	sign := func(want int64) {
		t.Helper()
		p.signIn(s.Client(), called("1", "alice"), "").Is(303, "")
		servicetest.Is(t, fetched.Load(), want, "fetches of keys")
	}
	sign(1)
	sign(1)
	p.rotate()
	sign(2)
	sign(2)
	servicetest.Is(t, discovered.Load(), 1, "discoveries")
	s.Clock.Advance(time.Hour)
	sign(3) // a key that the provider has withdrawn is forgotten
	servicetest.Is(t, discovered.Load(), 2, "discoveries")
	// Another key of the same name.
	p.head = map[string]any{"kid": "same"}
	p.respond("keys", p.endpoint("keys", func(all map[string]any, _ http.Header) { all["keys"].([]any)[0].(map[string]any)["kid"] = "same" }))
	for range 2 {
		p.signIn(s.Client(), called("1", "alice"), "").Is(303, "")
		p.rotate()
	}
}

// A code that somebody has made up has nothing fetched again: the keys that are known count while the provider has none to give.
func TestMadeUpCodeKeepsKeys(t *testing.T) {
	p, s := start(t)
	p.signIn(s.Client(), called("1", "alice"), "").Is(303, "")
	madeUp(s)().IsError(502, "provider_failed")
	s.Clock.Advance(time.Minute)
	p.respond("keys", responds(503, ""))
	p.signIn(s.Client(), called("1", "alice"), "").Is(303, "")
}

// A crowd for which there is no metadata yet has it fetched once.
func TestCrowdSharesMetadata(t *testing.T) {
	p, s := start(t)
	fetched := p.count("openid-configuration")
	servicetest.AtOnce(60, func(int) { s.Client().Get("/sign-in").Is(303, "") })
	servicetest.Is(t, fetched.Load(), 1, "fetches")
}

// TestEndpointsChange: new endpoints are noticed within an hour, and a few seconds after an old one has failed.
func TestEndpointsChange(t *testing.T) {
	p, s := start(t)
	c := s.Client()
	p.signIn(c, called("1", "alice"), "").Is(303, "")

	moved := p.metadata(map[string]any{"authorization_endpoint": p.issuer + "/elsewhere"})
	at := func() string {
		u, _ := url.Parse(begin(s.Client(), ""))
		return u.Path
	}
	usual := at()
	p.respond("openid-configuration", moved)
	s.Clock.Advance(time.Hour - time.Minute)
	servicetest.Is(t, at(), usual, "the endpoint too early")
	s.Clock.Advance(time.Minute)
	servicetest.Is(t, at(), "/oidc/elsewhere", "the endpoint after an hour")

	// The provider is away: what was known is used, and it is asked again soon.
	p.respond("openid-configuration", responds(503, ""))
	s.Clock.Advance(time.Hour)
	servicetest.Is(t, at(), "/oidc/elsewhere", "the endpoint while the provider is away")
	asked := p.count("openid-configuration")
	servicetest.Is(t, at(), "/oidc/elsewhere", "the endpoint at once")
	servicetest.Is(t, asked.Load(), 0, "the provider is asked again at once")
	s.Clock.Advance(10 * time.Second)
	servicetest.Is(t, at(), usual, "the endpoint")

	// The token endpoint fails, which may be because it has moved.
	p.respond("token", responds(404, ""))
	c = s.Client()
	p.signIn(c, called("1", "alice"), "").IsError(502, "provider_failed")
	p.respond("openid-configuration", moved)
	s.Clock.Advance(10 * time.Second)
	servicetest.Is(t, at(), "/oidc/elsewhere", "the endpoint after a failure")
}

// madeUp begins a sign-in, and returns a function that ends it with a code that somebody has made up.
func madeUp(s *servicetest.Service) (call func(...servicetest.RequestOption) *servicetest.Response) {
	c := s.Client()
	u, _ := url.Parse(begin(c, ""))
	q := url.Values{"state": u.Query()["state"], "code": {"made up"}}
	cookie := servicetest.Cookies(nameOf(u) + "=" + c.Cookie(nameOf(u)))
	return func(with ...servicetest.RequestOption) *servicetest.Response {
		return s.Client().Get("/sign-in/callback?"+q.Encode(), append(with, cookie)...)
	}
}

// holdMadeUp has the provider keep codes that somebody has made up waiting until release is closed. It sends what comes.
func (p *provider) holdMadeUp(release <-chan struct{}) (came <-chan struct{}) {
	all := make(chan struct{}, 1000)
	p.respond("token", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("code") == "made up" {
			all <- struct{}{}
			<-release
		}
		p.token(w, r)
	})
	return all
}

// TestCrowdAtSlowProvider: callbacks with codes that somebody has made up keep a provider busy that is slow. They come from
// one address, or from one IPv6 network, and take no place from anybody else.
func TestCrowdAtSlowProvider(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]func(i int) string{
		"one address":      func(int) string { return "192.0.2.1" },
		"one IPv6 network": func(i int) string { return fmt.Sprintf("2001:db8:1:1::%x", i) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t)
			s := servicetest.New(t, p.options, trustProxy)
			p.signIn(s.Client(), called("first", "first"), "").Is(303, "") // the form of the secret is known

			release := make(chan struct{})
			came := p.holdMadeUp(release)
			call := madeUp(s)
			var crowd sync.WaitGroup
			for i := range 90 {
				crowd.Go(func() {
					if r := call(from(address(i))); r.Status == 503 { // there was no place in time
						r.IsError(503, "overloaded").SetsNoCookie()
					} else {
						r.IsError(502, "provider_failed")
					}
				})
			}
			for range 16 {
				<-came
			}
			for i := range 11 {
				c := s.Client()
				u := p.consent(begin(c, ""), called(fmt.Sprint("honest", i), "alice"))
				c.Get(u.RequestURI(), from(fmt.Sprintf("198.51.100.%d", i))).Is(303, "")
			}
			servicetest.Is(t, len(came), 0, "places of the crowd beyond 16")
			close(release)
			crowd.Wait()
		})
	}
}

// TestBusyKeepsAttempt: a sign-in for which there was no place may be tried again, and others wait for nothing.
func TestBusyKeepsAttempt(t *testing.T) {
	p, s := start(t)
	bob := s.Client()
	p.signIn(bob, called("2", "bob"), "").Is(303, "")
	c := s.Client()
	u := p.consent(begin(c, ""), called("1", "alice"))
	release := make(chan struct{})
	p.holdMadeUp(release)
	call := madeUp(s)
	refused := make(chan struct{}, 150)
	var crowd sync.WaitGroup
	for range cap(refused) {
		crowd.Go(func() {
			if call().Status == 503 {
				refused <- struct{}{}
			}
		})
	}
	<-refused // all that one client may have is taken
	c.Get(u.RequestURI()).HasHeader("Retry-After", "1").SetsNoCookie().IsError(503, "overloaded")
	bob.Get("/api/auth/session").Is(200, servicetest.Authenticated)
	close(release)
	crowd.Wait()
	c.Get(u.RequestURI()).Is(303, "")
}

// TestStartWithoutProvider: the service serves while the provider is away.
func TestStartWithoutProvider(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	program := servicetest.NewProgram(t, "APP_ENV=production", "OIDC_ISSUER="+p.issuer, "OIDC_CLIENT_ID="+p.clientID, "OIDC_CLIENT_SECRET="+p.secret)
	p.Close()
	s := program.ServeReady()
	servicetest.Contains(t, s.Is(502, "GET", "/sign-in", "", ""), `"code":"provider_failed"`)
	servicetest.Is(t, s.Is(400, "GET", servicetest.SessionPath, "", ""), servicetest.SessionNoToken, "the session")
	servicetest.Lacks(t, s.Log.String(), p.secret)
}
