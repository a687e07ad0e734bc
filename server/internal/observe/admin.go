package observe

import (
	"errors"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"worldevents/models"
)

// maxProfile bounds a profile, in seconds.
const maxProfile = 60

// Admin returns the handler for the operator: /livez while the process runs, /readyz while it can serve, /metrics for Prometheus,
// /debug/pprof/ for go tool pprof. The last two require an IP address, localhost or one of hosts as the host, so that a page cannot use a
// name of its own that leads here (DNS rebinding). Health checks send any host. Pages of other origins get nothing; their links work,
// except to profiles, which cost time.
func (o *Observer) Admin(hosts []string) http.Handler {
	mux, inner := http.NewServeMux(), http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		err := o.Readiness.check(r.Context())
		o.Readiness.logChange(err)
		if err != nil {
			text := "not ready"
			if errors.Is(err, models.ErrStatements) { // other errors may contain names
				text += ": " + models.ErrStatements.Error()
			}
			http.Error(w, text, http.StatusServiceUnavailable)
			return
		}
		w.Write([]byte("ok\n"))
	})
	inner.Handle("GET /metrics", promhttp.HandlerFor(o.registry, promhttp.HandlerOpts{}))
	inner.HandleFunc("GET /debug/pprof/", pprof.Index)
	inner.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	inner.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		switch seconds := r.URL.Query().Get("seconds"); {
		case !isOperatorHost(r.Host, hosts):
			http.Error(w, "ADMIN_HOSTS does not have this host", http.StatusMisdirectedRequest)
		case seconds != "" && !isProfileTime(seconds):
			http.Error(w, "seconds must be a number up to "+strconv.Itoa(maxProfile), http.StatusBadRequest)
		default:
			inner.ServeHTTP(w, r)
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if site := r.Header.Get("Sec-Fetch-Site"); (site == "cross-site" || site == "same-site") &&
			(r.Header.Get("Sec-Fetch-Mode") != "navigate" || strings.HasPrefix(r.URL.Path, "/debug/")) {
			http.Error(w, "not for pages of another origin", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// isOperatorHost reports whether a Host header is an IP address, localhost or one of hosts.
func isOperatorHost(header string, hosts []string) bool {
	host := (&url.URL{Host: header}).Hostname()
	_, err := netip.ParseAddr(host)
	return err == nil || strings.EqualFold(host, "localhost") ||
		slices.ContainsFunc(hosts, func(h string) bool { return h != "" && strings.EqualFold(h, host) })
}

// isProfileTime reports whether a profile may take that long. Pprof accepts fractions for traces.
func isProfileTime(seconds string) bool {
	n, err := strconv.ParseFloat(seconds, 64)
	return err == nil && n >= 0 && n <= maxProfile
}
