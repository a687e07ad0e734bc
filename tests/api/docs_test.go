package api

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"worldevents/server"
	"worldevents/tests/servicetest"
)

func withDocs(o *servicetest.Options) { o.Docs = true }

func belowPath(o *servicetest.Options) { o.BaseURL, _ = url.Parse("https://example.org/base") }

func TestDocs(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, withDocs)
	c := s.Client()
	c.Get("/").Is(303, "").HasHeader("Location", "/docs")
	page := c.Get("/docs").HasHeader("Content-Type", "text/html; charset=utf-8").HasHeader("Cache-Control", "no-store")
	page.Has(200, "Not signed in")
	// Nothing in the page needs more than the policy allows, and all that it names is there.
	policy := page.Header.Get("Content-Security-Policy")
	servicetest.Contains(t, policy, "default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'")
	servicetest.Is(t, regexp.MustCompile(`(?i)<style|\sstyle=|\son\w+=|javascript:|<script>|https?://`).FindString(page.Body), "", "what the policy does not allow")
	assets := regexp.MustCompile(`(?:src|href)="(/[^"]+\.[a-z]+)"`).FindAllStringSubmatch(page.Body, -1)
	if len(assets) < 4 {
		t.Fatalf("assets %q", assets)
	}
	for _, asset := range assets {
		res := c.Get(asset[1]).Has(200)
		if len(res.Body) < 100 || strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") {
			t.Errorf("%s: %d, %d bytes of %s", asset[1], res.Status, len(res.Body), res.Header.Get("Content-Type"))
		}
	}
	for _, path := range []string{"/docs/nothing.js", "/docs/", "/docs/../main.go", "/docs/%2e%2e%2fmain.go", "/sign-in/nothing.css", "/sign-in/docs.html", "/assets/page.css"} {
		c.Get(path).Has(404)
	}
	servicetest.Lacks(t, s.SignIn("<b>alice").Get("/docs").Has(200, "&lt;b&gt;alice").Body, "<b>alice")
}

// The files of Swagger UI are sent compressed to everybody, also in parts.
func TestDocsCompressed(t *testing.T) {
	t.Parallel()
	c, raw := servicetest.New(t, withDocs).Client(), servicetest.Accepting("identity")
	for _, path := range []string{"/docs/swagger-ui.css", "/docs/swagger-ui-bundle.js"} {
		res := c.Get(path, raw).HasHeader("Content-Encoding", "gzip").HasHeader("Vary", "")
		res.HasHeader("Content-Length", strconv.Itoa(len(res.Body)))
		servicetest.True(t, len(servicetest.Content(t, res)) > 3*len(res.Body), "%s is compressed", path)
		part := c.Get(path, raw, servicetest.Header("Range", "bytes=100-199")).Is(206, res.Body[100:200])
		part.HasHeader("Content-Range", fmt.Sprintf("bytes 100-199/%d", len(res.Body))).HasHeader("Content-Encoding", "gzip")
	}
}

// HEAD works where it spends nothing: on the pages of the contract, and on files.
func TestDocsHead(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, withDocs)
	c := s.Client()
	for _, path := range []string{"/docs", "/openapi.json", "/openapi.yaml", "/docs/docs.js", "/docs/swagger-ui.css", "/docs/swagger-ui-bundle.js", "/sign-in/page.css", "/sign-in/icon.svg", "/sign-in/page.js"} {
		get, head := c.Get(path), c.Do("HEAD", path, "").Is(200, "")
		for _, name := range []string{"Content-Type", "Content-Length", "Cache-Control", "ETag", "Access-Control-Allow-Origin"} {
			if name == "Content-Length" && head.Header.Get(name) == "" {
				continue // it may be left out where only writing the body would tell (RFC 9110 section 8.6)
			}
			head.HasHeader(name, get.Header.Get(name))
		}
		c.Do("POST", path, "").IsError(405, "method_not_allowed").HasHeader("Allow", "OPTIONS, GET, HEAD")
	}
	for _, path := range []string{"/", "/sign-in", "/sessions", "/events"} {
		c.Do("HEAD", path, "").Has(405)
	}
}

// BRAND_NAME is what all pages call the service.
func TestBrand(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, withDocs, func(o *servicetest.Options) { o.BrandName = "Plazas <& Co>" })
	for _, path := range []string{"/docs", "/sign-in", "/sessions", "/events"} {
		page := s.Client().Get(path).Has(200, "Plazas &lt;&amp; Co&gt;</title>", "</svg> Plazas &lt;&amp; Co&gt;</strong>").Body
		servicetest.Lacks(t, page, "worldevents", "<& Co>")
	}
}

// Browsers ask before each use whether what belongs to a page is still the latest: a file of another version would not fit it.
func TestAssetsAreOfThePage(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, withDocs)
	for _, path := range []string{"/docs/docs.css", "/docs/docs.js", "/docs/calls.js", "/docs/swagger-ui.css", "/sign-in/page.css", "/sign-in/icon.svg", "/sign-in/page.js"} {
		res := s.Client().Get(path).HasHeader("Cache-Control", "public, no-cache").HasHeader("Vary", "")
		s.Client().Get(path, servicetest.IfNoneMatch(res.Has(200).Header.Get("ETag"))).Is(304, "")
	}
}

// Tools on any page may read the contract, and nothing else.
func TestPublishedContractFromElsewhere(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, withDocs)
	for path, allowed := range map[string]string{"/openapi.json": "*", "/openapi.yaml": "*", "/docs": "", "/docs/docs.js": "", "/sign-in": ""} {
		s.Client().Get(path, servicetest.Origin("https://editor.example")).HasHeader("Access-Control-Allow-Origin", allowed).
			HasHeader("Access-Control-Allow-Credentials", "")
	}
}

// What is published names each operation with all of its statuses, the bodies that the specification fixes, and the service's address.
func TestPublishedContract(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, withDocs, belowPath)
	for path, mediaType := range map[string]string{"/openapi.json": "application/json", "/openapi.yaml": "application/yaml"} {
		res := s.Client().Get(path).HasHeader("Content-Type", mediaType)
		doc := servicetest.Must(openapi3.NewLoader().LoadFromData([]byte(res.Body)))(t)
		statuses := make(map[string]string)
		var bodies []string
		for path, item := range doc.Paths.Map() {
			for method, op := range item.Operations() {
				statuses[op.OperationID+" "+method+" "+path] = strings.Join(slices.Sorted(maps.Keys(op.Responses.Map())), " ")
				if strings.HasPrefix(path, "/api/auth/") {
					for _, example := range op.Responses.Value("400").Value.Content["application/json"].Examples {
						text, _ := json.Marshal(example.Value.Value)
						bodies = append(bodies, string(text))
					}
				}
			}
		}
		servicetest.Is(t, statuses, map[string]string{
			"getSession GET /api/auth/session":     "200 400 403 429 431 500 503",
			"refreshSession GET /api/auth/refresh": "200 400 403 429 431 500 503",
			"createEvent POST /api/event/{id}":     "200 400 401 403 409 413 415 429 431 500 503",
			"listEvents GET /api/event/{id}":       "200 304 400 401 403 413 429 431 500 503",
			"joinEvent POST /api/event/join/{id}":  "200 400 401 403 404 413 429 431 500 503",
			"leaveEvent DELETE /api/event/{id}":    "200 400 401 403 404 413 429 431 500 503",
		}, "operations")
		servicetest.Contains(t, strings.Join(bodies, "\n"), servicetest.SessionNoToken, servicetest.SessionInvalid, servicetest.SessionNoRefresh,
			servicetest.SessionInvalidRefresh, servicetest.NoRefresh, servicetest.InvalidRefresh)
		if len(doc.Servers) != 1 || doc.Servers[0].URL != "https://example.org/base" {
			t.Errorf("servers %v", doc.Servers)
		}
	}
}

func TestDocsOff(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t) // Docs is off
	for _, path := range []string{"/docs", "/docs/swagger-ui.css", "/openapi.json", "/openapi.yaml", "/"} {
		s.Client().Get(path).IsError(404, "not_found")
	}
}

// The public keys are published as a JWK Set (RFC 7517, RFC 8037) for everybody. Below a path the file is not one of the whole host, and
// without private keys there is none.
func TestKeySet(t *testing.T) {
	t.Parallel()
	key := ed25519.NewKeyFromSeed([]byte("\x9d\x61\xb1\x9d\xef\xfd\x5a\x60\xba\x84\x4a\xf4\x92\xec\x2c\xc4\x44\x49\xc5\x69\x7b\x32\x69\x19\x70\x3b\xac\x03\x1c\xae\x7f\x60")) // RFC 8037 appendix A
	private := func(o *servicetest.Options) { o.PrivateKeys = []ed25519.PrivateKey{key} }
	const path, below = "/.well-known/jwks.json", "/jwks.json"
	body := `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"` +
		server.KeyID(key.Public().(ed25519.PublicKey)) + `","use":"sig","alg":"EdDSA"}]}`
	s := servicetest.New(t, private)
	s.Client().Get(path, servicetest.Origin("https://anywhere.example")).Is(200, body).HasHeader("Content-Type", "application/json").
		HasHeader("Cache-Control", "public, max-age=300").HasHeader("Vary", "").HasHeader("Access-Control-Allow-Origin", "*").
		HasHeader("Access-Control-Allow-Credentials", "")
	s.Client().Do("HEAD", path, "").Is(200, "")
	s.Client().Do("POST", path, "").IsError(405, "method_not_allowed")
	s.Client().Get(below).IsError(404, "not_found")
	s = servicetest.New(t, private, belowPath)
	s.Client().Get(below).Is(200, body)
	s.Client().Get(path).IsError(404, "not_found")
	servicetest.New(t).Client().Get(path).IsError(404, "not_found")
}

// security.txt (RFC 9116) says where to report a vulnerability, for the next 90 days. It is the file of a whole host, so there is none
// below a path, and none without a contact.
func TestSecurityTxt(t *testing.T) {
	t.Parallel()
	contacts := func(o *servicetest.Options) {
		o.SecurityContacts = []string{"mailto:security@example.org", "https://example.org/report"}
	}
	const path = "/.well-known/security.txt"
	s := servicetest.New(t, contacts)
	s.Clock.Freeze(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	s.Client().Get(path).Is(200, "Contact: mailto:security@example.org\nContact: https://example.org/report\n"+
		"Expires: 2030-04-01T00:00:00Z\nCanonical: "+s.URL+path+"\n").
		HasHeader("Content-Type", "text/plain; charset=utf-8").HasHeader("Cache-Control", "public, max-age=3600")
	s.Client().Do("HEAD", path, "").Is(200, "")
	s.Client().Do("POST", path, "").IsError(405, "method_not_allowed")
	servicetest.New(t).Client().Get(path).IsError(404, "not_found")
	servicetest.New(t, contacts, belowPath).Client().Get(path).IsError(404, "not_found")
}
