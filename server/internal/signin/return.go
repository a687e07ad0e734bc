package signin

import (
	"net/http"
	"net/url"
	"strings"
)

// isTopLevel reports whether the response will be what the browser's window shows (W3C Fetch Metadata). It is false for a frame, an image or a
// script of a page, and for a prefetch: other pages may send people here, but must not sign them in unseen. A window's request that a service
// worker passes on has no destination, and may have the mode of one of the origin itself. So has a frame's, which all pages forbid.
func isTopLevel(r *http.Request) bool {
	dest, mode := r.Header.Get("Sec-Fetch-Dest"), r.Header.Get("Sec-Fetch-Mode")
	isPassedOn := dest == "empty" && (mode == "navigate" || mode == "same-origin" && r.Header.Get("Sec-Fetch-Site") == "same-origin")
	return (dest == "" || dest == "document" || isPassedOn) && r.Header.Get("Sec-Purpose") == ""
}

// isNavigation reports whether the browser will show the response, as after a form; a script's fetch handles it itself.
// Fetch Metadata says which. Accept does in browsers that are too old for it, and behind a service worker, as above.
func isNavigation(r *http.Request) bool {
	if mode := r.Header.Get("Sec-Fetch-Mode"); mode != "" && mode != "same-origin" {
		return mode == "navigate"
	}
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}

// maxReturn bounds a return URL, in bytes: it must fit into a cookie.
const maxReturn = 2000

// safeReturnURL returns target if a sign-in may lead there: to a URL of an allowed origin or to a path of this service.
// Otherwise it returns the docs. The origin is matched as text, so that no parser can disagree with the browser's.
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

// signInPath leads to a sign-in that leads on to target.
func signInPath(target string) string {
	return "/sign-in?" + url.Values{"return_to": {target}}.Encode()
}

// backAt is the host that a sign-in with this target leads to, "" if that is this service.
func (s *Service) backAt(target string) string {
	u, err := url.Parse(s.safeReturnURL(target))
	if err != nil {
		return ""
	}
	return u.Host
}

// unsafeInURL reports whether browsers drop r from a URL or read it as something else: a backslash as a slash.
func unsafeInURL(r rune) bool { return r == '\\' || r <= ' ' || r == 0x7f }

// safePath returns target if it is a path of this service, otherwise the docs. A text that a browser might read as
// another host is no path: "//host", and "/\host", because browsers read a backslash as a slash.
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
