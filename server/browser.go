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

// browserRules are what browsers are told and held to: security headers, CORS, and refusal across origins.
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

// headers sets what every response carries. Pages widen the policy to what they need.
func (b *browserRules) headers(c echo.Context) error {
	h := c.Response().Header()
	maps.Copy(h, b.always)
	h["Vary"] = varyCookie
	if strings.HasPrefix(c.Request().URL.Path, "/api/auth/") {
		h["Cache-Control"] = noStore
	}
	return nil
}

// Many responses share these values of headers. Nobody may change one; append copies it first.
var (
	varyCookie       = []string{"Cookie"} // a cache that disregards Cache-Control keeps users apart, too
	varyCookieOrigin = []string{"Cookie, Origin"}
	varyPreflight    = []string{"Origin, Access-Control-Request-Method, Access-Control-Request-Headers"}
	noStore          = []string{"no-store"}
)

// exposed are the headers of a response that scripts of an allowed origin may read.
const exposed = "Event-Id, Idempotency-Key, Session-User, Session-Expires, ETag, Link, Retry-After, X-Request-Id"

// cors tells browsers what pages of other origins may do (Fetch standard, section 3.3). An origin that is not
// allowed is told nothing; the browser then keeps the response from the page.
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

// refuseCrossOrigin refuses what a page of an origin that is not allowed sends with the user's cookies. The two auth
// operations are held to the same rules as unsafe methods although they are GETs: they change state. So is what costs the database time,
// unless a window goes there: no page of another origin sees it, but an image could have it read a thousand times.
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

// isEmbeddedElsewhere reports whether a browser says that a page of another origin has it ask, and not to show the response in a window or
// frame (W3C Fetch Metadata).
func isEmbeddedElsewhere(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return (site == "cross-site" || site == "same-site") && r.Header.Get("Sec-Fetch-Mode") != "navigate"
}

var readsDatabase = regexp.MustCompile(`^/(api/event/|(sessions|events)(/|$))`).MatchString

// basePath is the path of the public address: "" or "/x", never with a slash at its end.
func basePath(u *url.URL) string { return strings.TrimRight(u.EscapedPath(), "/") }

// home is the origin that people come from: the first that a sign-in leads back to, or the one of the public address if that has a path. It
// is nil if neither is there.
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
