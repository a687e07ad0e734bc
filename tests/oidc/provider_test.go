package oidc

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/oauth2-proxy/mockoidc"

	"worldevents/server"
	"worldevents/tests/servicetest"
)

func TestMain(m *testing.M) { os.Exit(servicetest.Main(m)) }

// flowCookie keeps a sign-in that is under way, over https at the root of a host.
const flowCookie = "__Host-signIn"

// provider is an identity provider that signs in whom a test says, and misbehaves on demand.
type provider struct {
	*mockoidc.MockOIDC
	t testing.TB

	mu sync.Mutex // the mock has no locks of its own
	// instead, when it returns true, has served a request in the mock's place. The key is the path's last segment.
	instead map[string]func(http.ResponseWriter, *http.Request) bool
	codes   []string // all that were issued
}

// key is made once: RSA takes a while.
var key = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

func newProvider(t testing.TB) *provider {
	t.Helper()
	mock, err := mockoidc.NewServer(key())
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{MockOIDC: mock, t: t, instead: make(map[string]func(http.ResponseWriter, *http.Request) bool)}
	mock.AddMiddleware(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, _, basic := r.BasicAuth(); basic { // it wants the secret in the form, and the client has to find out
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			p.mu.Lock()
			instead := p.instead[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]
			p.mu.Unlock()
			if instead != nil && instead(w, r) {
				return
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			next.ServeHTTP(w, r)
		})
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := mock.Start(l, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mock.Server.Close() })
	return p
}

// respond replaces what an endpoint returns, from now on; nil puts it back.
func (p *provider) respond(endpoint string, with http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.instead, endpoint)
	if with != nil {
		p.instead[endpoint] = func(w http.ResponseWriter, r *http.Request) bool {
			with(w, r)
			return true
		}
	}
}

// options is an Option that configures a service to sign in with p.
func (p *provider) options(o *servicetest.Options) {
	o.Development = false
	o.OIDC = &server.OIDC{
		Issuer: p.Issuer(), ClientID: p.ClientID, ClientSecret: p.ClientSecret,
		Scopes: []string{"openid", "profile"}, UsernameClaim: "preferred_username",
	}
	o.ReturnOrigins = []string{"https://app.example.org", "http://localhost:5173"}
}

// discovery responds with the usual metadata with changes; nil removes.
func (p *provider) discovery(w http.ResponseWriter, change map[string]any) {
	usual := httptest.NewRecorder()
	p.Discovery(usual, nil)
	var metadata map[string]any
	json.Unmarshal(usual.Body.Bytes(), &metadata)
	for name, value := range change {
		if metadata[name] = value; value == nil {
			delete(metadata, name)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(metadata)
}

// person is somebody who has an account at the provider: the claims of their ID token, over the usual ones.
type person jwt.MapClaims

func called(subject, username string) person {
	return person{"sub": subject, "preferred_username": username}
}

func (p person) ID() string { return "" }

func (p person) Userinfo([]string) ([]byte, error) { return json.Marshal(p) }

func (p person) Claims(_ []string, usual *mockoidc.IDTokenClaims) (jwt.Claims, error) {
	claims := jwt.MapClaims{
		"iss": usual.Issuer, "aud": usual.Audience, "exp": usual.ExpiresAt.Unix(), "iat": usual.IssuedAt.Unix(), "nonce": usual.Nonce,
	}
	maps.Copy(claims, jwt.MapClaims(p))
	for name, value := range claims {
		if value == nil {
			delete(claims, name)
		}
	}
	return claims, nil
}

// consent is what the person's browser does at the provider: it returns the address of the callback that the provider
// sends it to.
func (p *provider) consent(authorize string, who person) *url.URL {
	p.t.Helper()
	p.mu.Lock()
	p.QueueUser(who)
	p.mu.Unlock()
	return p.visit(authorize)
}

func (p *provider) visit(authorize string) *url.URL {
	p.t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Timeout: time.Minute}
	res, err := client.Get(authorize)
	if err != nil {
		p.t.Error(err)
		return new(url.URL)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	u, err := res.Location()
	if err != nil {
		p.t.Errorf("the provider refuses %s: %d %s", authorize, res.StatusCode, body)
		return new(url.URL)
	}
	p.mu.Lock()
	p.codes = append(p.codes, u.Query().Get("code"))
	p.mu.Unlock()
	return u
}

// checkLog fails the test when the service has logged what only it and the provider may know.
func (p *provider) checkLog(s *servicetest.Service) {
	p.t.Helper()
	for _, secret := range append([]string{p.ClientSecret, "id_token", "access_token", "eyJ"}, p.codes...) {
		if secret != "" && strings.Contains(s.Log.String(), secret) {
			p.t.Errorf("%q is in the log", secret)
		}
	}
}

// signIn goes the whole way in the browser c, and returns the response to the callback.
func (p *provider) signIn(c *servicetest.Client, who person, returnTo string) *servicetest.Response {
	p.t.Helper()
	return c.Get(p.consent(begin(c, returnTo), who).RequestURI())
}

// begin returns the address at the provider that c is sent to.
func begin(c *servicetest.Client, returnTo string) string {
	return c.Get("/sign-in?return_to="+url.QueryEscape(returnTo)).HasHeader("Cache-Control", "no-store").Header.Get("Location")
}

// failed checks that a response is this error, and that nobody is signed in, not even half.
func failed(t testing.TB, s *servicetest.Service, c *servicetest.Client, r *servicetest.Response, status int, code string) {
	t.Helper()
	r.IsError(status, code)
	for _, line := range r.Header.Values("Set-Cookie") {
		if !strings.HasPrefix(line, flowCookie+"=;") {
			t.Errorf("a cookie is set: %s", line)
		}
	}
	c.Get("/api/auth/session").Is(400, servicetest.SessionNoToken)
	if n := s.Database.Count("sessions"); n != 0 {
		t.Errorf("%d sessions", n)
	}
}
