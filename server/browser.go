package server

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
)

// browserRules are the security headers, CORS, and the refusal of other origins.
type browserRules struct {
	origins    []string
	always     http.Header // of every response
	protection *http.CrossOriginProtection
}

func newBrowserRules(o Options) (*browserRules, error) {
	b := &browserRules{
		origins: o.AllowedOrigins,
		always: http.Header{
			"X-Content-Type-Options":       {"nosniff"},
			"Referrer-Policy":              {"no-referrer"},
			"Cross-Origin-Resource-Policy": {"same-origin"},
			"Content-Security-Policy":      {"default-src 'none'; frame-ancestors 'none'"},
		},
		protection: http.NewCrossOriginProtection(),
	}
	if !o.Development && o.HSTS != "" {
		b.always["Strict-Transport-Security"] = []string{o.HSTS}
	}
	for _, origin := range append([]string{o.BaseURL.Scheme + "://" + o.BaseURL.Host}, o.AllowedOrigins...) {
		if err := b.protection.AddTrustedOrigin(origin); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// headers sets the headers of every response. A page then sets a wider policy.
func (b *browserRules) headers(c echo.Context) error {
	h := c.Response().Header()
	maps.Copy(h, b.always)
	h["Vary"] = varyCookie
	if strings.HasPrefix(c.Request().URL.Path, "/api/auth/") {
		h["Cache-Control"] = noStore
	}
	return nil
}

// Many responses share these values, so nobody may change one.
var (
	varyCookie       = []string{"Cookie"} // a cache that disregards Cache-Control keeps users apart, too
	varyCookieOrigin = []string{"Cookie, Origin"}
	varyPreflight    = []string{"Origin, Access-Control-Request-Method, Access-Control-Request-Headers"}
	noStore          = []string{"no-store"}
)

// exposed are the response headers that scripts of an allowed origin may read.
const exposed = "Event-Id, Idempotency-Key, Session-User, Session-Expires, ETag, Link, Retry-After, X-Request-Id"

// cors sends the CORS headers (Fetch standard, section 3.3) to allowed origins only; a browser keeps the response from others.
func (b *browserRules) cors(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r, h := c.Request(), c.Response().Header()
		if !strings.HasPrefix(r.URL.Path, "/api/") && r.URL.Path != "/sign-out" {
			return next(c)
		}
		h["Vary"] = varyCookieOrigin
		origin := r.Header.Get("Origin")
		allowed := slices.Contains(b.origins, origin)
		if allowed {
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Allow-Credentials", "true")
			h.Set("Access-Control-Expose-Headers", exposed)
		}
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" && allowed {
			h.Del("Access-Control-Expose-Headers")
			h["Vary"] = varyPreflight
			h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
			if asked := r.Header.Values("Access-Control-Request-Headers"); len(asked) > 0 {
				h["Access-Control-Allow-Headers"] = asked // tracing adds its own
			}
			h.Set("Access-Control-Max-Age", "600")
			return c.NoContent(http.StatusNoContent)
		}
		return next(c)
	}
}

// refuseCrossOrigin refuses requests with cookies from pages of other origins. GETs of the two auth operations change state, so they count
// as unsafe. So do GETs that cost database time and do not open a window: an image on another page could send a thousand of them.
func (b *browserRules) refuseCrossOrigin(c echo.Context) error {
	r := c.Request()
	isAuth := strings.HasPrefix(r.URL.Path, "/api/auth/")
	if r.Method == http.MethodGet && isAuth && r.Header.Get("Sec-Purpose") != "" { // a prefetch: nobody has asked for it yet
		return errCrossOrigin
	}
	if r.Method == http.MethodGet && (isAuth || isEmbeddedElsewhere(r) && readsDatabase(r.URL.Path)) {
		unsafe := *r
		unsafe.Method = http.MethodPost
		r = &unsafe
	}
	if b.protection.Check(r) != nil {
		return errCrossOrigin
	}
	return nil
}

// isEmbeddedElsewhere reports whether a page of another origin sent the request, and not to open a window or frame (W3C Fetch Metadata).
func isEmbeddedElsewhere(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return (site == "cross-site" || site == "same-site") && r.Header.Get("Sec-Fetch-Mode") != "navigate"
}

var readsDatabase = regexp.MustCompile(`^/(api/event/|(sessions|events)(/|$))`).MatchString

// basePath is the path of the public address: "" or "/x", never with a slash at its end.
func basePath(u *url.URL) string { return strings.TrimRight(u.EscapedPath(), "/") }

// home is the origin where people come from: the first that a sign-in leads back to, or that of a public address with a path, or nil.
func home(o Options) *url.URL {
	switch {
	case len(o.ReturnOrigins) > 0:
		u, _ := url.Parse(o.ReturnOrigins[0])
		return u
	case basePath(o.BaseURL) != "":
		return &url.URL{Scheme: o.BaseURL.Scheme, Host: o.BaseURL.Host}
	}
	return nil
}
