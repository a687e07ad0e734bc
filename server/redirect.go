package server

import (
	"net/http"
	"net/url"
	"strings"
)

// Redirect returns the handler of a listener without TLS. It redirects GET and HEAD to the same host of the public address. It refuses
// other requests, so that a client notices that it sends secrets in clear text.
func Redirect(base *url.URL) http.Handler {
	origin := base.Scheme + "://" + base.Host
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Connection", "close")
		switch host := (&url.URL{Host: r.Host}).Hostname(); {
		case !strings.EqualFold(host, base.Hostname()):
			refusePlain(w, http.StatusMisdirectedRequest, "This service is at "+origin)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			refusePlain(w, http.StatusMethodNotAllowed, "Use "+origin)
		case !strings.HasPrefix(r.URL.RequestURI(), "/"):
			refusePlain(w, http.StatusBadRequest, "Use "+origin)
		default:
			h.Set("Location", origin+r.URL.RequestURI())
			w.WriteHeader(http.StatusPermanentRedirect)
		}
	})
}

func refusePlain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, text, status)
}
