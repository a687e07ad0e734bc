package serve

import (
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"worldevents/server"
	"worldevents/server/certificate"
)

// plainServer is what HTTP_ADDR serves: it redirects to the public address, and answers the challenges of an authority
// (RFC 8555 section 8.3). A client gets 5 s, since nothing here takes longer.
func plainServer(base *url.URL, source certificate.Source, log *slog.Logger) *http.Server {
	handler := server.Redirect(base)
	if acme, ok := source.(*certificate.ACME); ok {
		handler = acme.Handler(handler)
	}
	return &http.Server{
		Handler:        handler,
		ReadTimeout:    5 * time.Second,
		WriteTimeout:   5 * time.Second,
		MaxHeaderBytes: 12 << 10,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelDebug),

		// Otherwise net/http itself would respond to OPTIONS *, without the redirect.
		DisableGeneralOptionsHandler: true,
	}
}
