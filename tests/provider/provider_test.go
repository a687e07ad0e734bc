package provider

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/oauth2"

	"worldevents/server"
	"worldevents/tests/servicetest"
)

func TestMain(m *testing.M) { os.Exit(servicetest.Main(m)) }

// flowPrefix begins the names of the cookies that keep sign-ins which are under way, over https at the root of a host.
const flowPrefix = "__Host-signIn-"

// nameOf returns the name of the cookie of the sign-in that u belongs to, where the browser goes or comes from.
func nameOf(u *url.URL) string {
	state := u.Query().Get("state")
	return flowPrefix + state[:min(len(state), 8)]
}

// provider is an identity provider that signs in whom a test says, and misbehaves on demand. A code counts once, with the
// verifier and the redirect URI of the request that it came from. The secret must be in the form, which a client has to
// find out; with takes it must come as that method of authentication says.
type provider struct {
	*httptest.Server
	issuer, clientID string
	t                testing.TB

	takes string
	head  map[string]any

	mu      sync.Mutex
	secret  string
	key     *rsa.PrivateKey
	instead map[string]http.HandlerFunc // replaces endpoints
	codes   map[string]url.Values       // the authorization request of each code, nil when it was used
	tokens  map[string]string           // the person of each access token
}

// firstKey is made once: RSA takes a while.
var firstKey = sync.OnceValue(newKey)

func newKey() *rsa.PrivateKey {
	k, _ := rsa.GenerateKey(rand.Reader, 2048) // never fails
	return k
}

func newProvider(t testing.TB) *provider {
	p := &provider{
		t: t, clientID: "client-" + rand.Text(), secret: "secret-" + rand.Text(), key: firstKey(),
		instead: make(map[string]http.HandlerFunc), codes: make(map[string]url.Values), tokens: make(map[string]string),
	}
	p.Server = httptest.NewServer(p)
	p.issuer = p.URL + "/oidc"
	t.Cleanup(p.Close)
	return p
}

// ServeHTTP implements http.Handler. Endpoints are called by the last segment of their path.
func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	endpoint := path.Base(r.URL.Path)
	p.mu.Lock()
	serve := p.instead[endpoint]
	p.mu.Unlock()
	switch _, _, basic := r.BasicAuth(); {
	case basic && p.takes == "":
		w.WriteHeader(http.StatusUnauthorized)
	case serve != nil:
		serve(w, r)
	default:
		p.usual(endpoint)(w, r)
	}
}

// usual is what serves an endpoint that nothing replaces.
func (p *provider) usual(endpoint string) http.HandlerFunc {
	switch endpoint {
	case "openid-configuration":
		return p.metadata(nil)
	case "authorize":
		return p.authorize
	case "token":
		return p.token
	case "userinfo":
		return p.userInfo
	case "keys":
		return p.publicKeys
	}
	return http.NotFound
}

// respond replaces what an endpoint returns, from now on; nil puts it back.
func (p *provider) respond(endpoint string, with http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.instead[endpoint] = with
}

// metadata responds with the usual metadata with changes; nil removes.
func (p *provider) metadata(change map[string]any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		metadata := map[string]any{
			"issuer": p.issuer, "authorization_endpoint": p.issuer + "/authorize", "token_endpoint": p.issuer + "/token",
			"userinfo_endpoint": p.issuer + "/userinfo", "jwks_uri": p.issuer + "/keys",
		}
		merge(metadata, change)
		respondJSON(w, 200, metadata)
	}
}

// responds is an endpoint that responds so, whatever it is asked.
func responds(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		io.WriteString(w, text)
	}
}

func (p *provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != p.clientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.mu.Lock()
	p.codes[code] = q
	p.mu.Unlock()
	back := url.Values{"code": {code}, "state": q["state"]}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

func (p *provider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	code := r.PostFormValue("code")
	asked := p.codes[code]
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	if id != p.clientID || secret != p.secret || p.takes != "" && basic != (p.takes == "client_secret_basic") {
		respondJSON(w, 401, map[string]any{"error": "invalid_client"})
		return
	}
	p.codes[code] = nil
	if asked == nil || r.PostFormValue("grant_type") != "authorization_code" || r.PostFormValue("redirect_uri") != asked.Get("redirect_uri") ||
		oauth2.S256ChallengeFromVerifier(r.PostFormValue("code_verifier")) != asked.Get("code_challenge") {
		respondJSON(w, 400, map[string]any{"error": "invalid_grant"})
		return
	}
	now := time.Now()
	claims := map[string]any{"iss": p.issuer, "aud": p.clientID, "iat": now.Unix(), "exp": now.Add(24 * time.Hour).Unix(), "nonce": asked.Get("nonce")}
	var who person
	json.Unmarshal([]byte(asked.Get("login_hint")), &who)
	merge(claims, who)
	text, _ := json.Marshal(claims)
	access := rand.Text()
	p.tokens[access] = asked.Get("login_hint")
	respondTokens(w, access, p.sign(string(text)))
}

func respondTokens(w http.ResponseWriter, access, id string) {
	respondJSON(w, 200, map[string]any{"access_token": access, "token_type": "Bearer", "id_token": id})
}

// sign returns claims as an ID token, whose head has what p.head says beside alg and kid.
func (p *provider) sign(claims string) string {
	head := map[string]any{"alg": "RS256", "kid": p.keyID()}
	merge(head, p.head)
	text, _ := json.Marshal(head)
	return p.signText(servicetest.Base64(string(text)) + "." + servicetest.Base64(claims))
}

func (p *provider) signText(head string) string {
	signature := servicetest.Must(jwt.SigningMethodRS256.Sign(head, p.key))(p.t)
	return head + "." + servicetest.Base64(string(signature))
}

func (p *provider) userInfo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, p.person(r))
}

// person is whose access token a request brings, as JSON; "" without a token of p.
func (p *provider) person(r *http.Request) string {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tokens[token]
}

func (p *provider) publicKeys(w http.ResponseWriter, _ *http.Request) {
	respondJSON(w, 200, map[string]any{"keys": []any{p.publicKey()}})
}

func (p *provider) publicKey() map[string]any {
	p.mu.Lock()
	defer p.mu.Unlock()
	return map[string]any{
		"kty": "RSA", "alg": "RS256", "use": "sig", "kid": p.keyID(), "n": servicetest.Base64(string(p.key.N.Bytes())), "e": "AQAB",
	}
}

func (p *provider) keyID() string { return fmt.Sprintf("%x", p.key.N.Bytes()[:8]) }

// rotate gives the provider another key.
func (p *provider) rotate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key = newKey()
}

// setSecret replaces the client's secret, and returns the one of before.
func (p *provider) setSecret(secret string) (before string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, p.secret = p.secret, secret
	return before
}

// merge changes what is in all; nil removes.
func merge(all, change map[string]any) {
	for name, value := range change {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
}

func respondJSON(w http.ResponseWriter, status int, content any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(content)
}

// options is an Option that configures a service to sign in with p.
func (p *provider) options(o *servicetest.Options) {
	o.Development = false
	o.OIDC = &server.OIDC{
		Issuer: p.issuer, ClientID: p.clientID, ClientSecret: p.secret,
		Scopes: []string{"openid", "profile"}, UsernameClaim: "preferred_username",
		Timeout: 30 * time.Second, // on a machine that does much else
	}
	o.ReturnOrigins = []string{"https://app.example.org", "http://localhost:5173"}
}

// person is somebody who has an account at the provider: the claims of their ID token, over the usual ones, and of
// UserInfo.
type person map[string]any

func called(subject, username string) person {
	return person{"sub": subject, "preferred_username": username}
}

// consent is what the person's browser does at the provider: it returns the address of the callback that the provider
// sends it to. The request says who it is, so that sign-ins at the same time are not mistaken for each other.
func (p *provider) consent(authorize string, who person) *url.URL {
	p.t.Helper()
	hint, _ := json.Marshal(who)
	res := servicetest.NewBrowser(authorize, http.DefaultTransport).Do("GET", "&login_hint="+url.QueryEscape(string(hint)), "")
	u, err := url.Parse(res.Header.Get("Location"))
	if err != nil || res.Status != 302 {
		p.t.Errorf("the provider refuses %s: %v", authorize, res)
		return new(url.URL)
	}
	return u
}

// checkLog fails the test when the service has logged what only it and the provider may know.
func (p *provider) checkLog(s *servicetest.Service) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	secrets := slices.Concat([]string{"id_token", "access_token", "eyJ"}, slices.Collect(maps.Keys(p.codes)), slices.Collect(maps.Keys(p.tokens)))
	if p.secret != "" {
		secrets = append(secrets, p.secret)
	}
	for _, secret := range secrets {
		servicetest.Lacks(p.t, strings.ReplaceAll(s.Log.String(), "invalid_token", ""), secret)
	}
}

// isCalled fails the test unless the user of a browser has this name. One that ends in a dash stands before eight random digits.
func isCalled(t testing.TB, c *servicetest.Client, want string) {
	t.Helper()
	got := c.Get(servicetest.SessionPath).Is(200, servicetest.Authenticated).Header.Get("Session-User")
	if strings.HasSuffix(want, "-") && len(got) == len(want)+8 {
		got = got[:len(want)]
	}
	servicetest.Is(t, got, want, "the name")
}

// start starts a provider for a test that is parallel, and a service that signs in with it.
func start(t *testing.T, changes ...servicetest.Option) (*provider, *servicetest.Service) {
	t.Helper()
	t.Parallel()
	p := newProvider(t)
	return p, servicetest.New(t, append([]servicetest.Option{p.options}, changes...)...)
}

// try goes the way of alice in the browser c as far as it leads, and returns the last response.
func (p *provider) try(c *servicetest.Client) *servicetest.Response {
	p.t.Helper()
	r := c.Get("/sign-in")
	if r.Status == 303 {
		r = c.Get(p.consent(r.Header.Get("Location"), called("1", "alice")).RequestURI())
	}
	return r
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
		if !strings.HasPrefix(line, flowPrefix) || !strings.Contains(line[:strings.Index(line, ";")], "=.") { // it has ended
			t.Errorf("a cookie is set: %s", line)
		}
	}
	c.Get("/api/auth/session").Is(400, servicetest.SessionNoToken)
	servicetest.Is(t, s.Database.Count("sessions"), 0, "sessions")
}
