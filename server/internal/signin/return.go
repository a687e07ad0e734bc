package signin

import (
	"net/http"
	"net/url"
	"strings"
)

// isTopLevel reports whether a window will show the response (W3C Fetch Metadata), and not a frame, an image, a script or a prefetch: other
// pages may send people here, but not sign them in unseen. The request of a window through a service worker has no destination, and may
// have the mode of the origin itself. So has that of a frame, which all pages forbid.
func isTopLevel(r *http.Request) bool {
	dest, mode := r.Header.Get("Sec-Fetch-Dest"), r.Header.Get("Sec-Fetch-Mode")
	isPassedOn := dest == "empty" && (mode == "navigate" || mode == "same-origin" && r.Header.Get("Sec-Fetch-Site") == "same-origin")
	return (dest == "" || dest == "document" || isPassedOn) && r.Header.Get("Sec-Purpose") == ""
}

// isNavigation reports whether a browser will show the response, and not a script. Accept decides in
// browsers without Fetch Metadata, and behind a service worker.
func isNavigation(r *http.Request) bool {
	if mode := r.Header.Get("Sec-Fetch-Mode"); mode != "" && mode != "same-origin" {
		return mode == "navigate"
	}
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}

// maxReturn bounds a return URL in bytes, since it is kept in a cookie.
const maxReturn = 2000

// safeReturnURL returns target if it is a URL of an allowed origin or a path of this service, else the docs. It matches the origin as text,
// because parsers and browsers may disagree.
func (s *Service) safeReturnURL(target string) string {
	if len(target) > maxReturn {
		target = ""
	}
	for _, origin := range s.ReturnOrigins {
		rest, ok := strings.CutPrefix(target, origin)
		if ok && (rest == "" || strings.Contains("/?#", rest[:1])) && !strings.ContainsFunc(rest, unsafeInURL) {
			return target
		}
	}
	return s.safePath(target)
}

// signInPath is a sign-in with a target.
func signInPath(target string) string {
	return "/sign-in?" + url.Values{"return_to": {target}}.Encode()
}

// unsafeInURL reports whether browsers drop r from a URL or change it: a backslash to a slash.
func unsafeInURL(r rune) bool { return r == '\\' || r <= ' ' || r == 0x7f }

// safePath returns target if it is a path of this service, else the docs. Browsers read "//host" and "/\host" as another host.
func (s *Service) safePath(target string) string {
	u, err := url.Parse(target)
	switch {
	case err != nil, u.Scheme != "", u.Host != "", u.User != nil,
		!strings.HasPrefix(target, s.Pages.Base+"/"), strings.HasPrefix(target, "//"),
		strings.ContainsFunc(target, unsafeInURL):
		return s.Pages.Base + "/docs"
	}
	return target
}
