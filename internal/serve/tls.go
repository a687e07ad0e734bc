package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"worldevents/config"
	"worldevents/server"
	"worldevents/server/certificate"
)

// servePlain serves HTTP_ADDR: it redirects to the public address, and answers the challenges of an authority
// (RFC 8555 section 8.3). A client gets 5 s, since nothing here takes longer.
func servePlain(c *config.Config, source certificate.Source, log *slog.Logger, errc chan<- error) (*http.Server, error) {
	handler := server.Redirect(c.Base)
	if acme, ok := source.(*certificate.ACME); ok {
		handler = acme.Handler(handler)
	}
	s := &http.Server{
		Handler:        handler,
		ReadTimeout:    5 * time.Second,
		WriteTimeout:   5 * time.Second,
		MaxHeaderBytes: 12 << 10,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelDebug),

		// Otherwise net/http itself would respond to OPTIONS *, without the redirect.
		DisableGeneralOptionsHandler: true,
	}
	l, err := net.Listen("tcp", c.HTTPAddr)
	if err != nil {
		return nil, fmt.Errorf("HTTP_ADDR: %w", err)
	}
	go serve(s, l, errc)
	return s, nil
}

// keepCertificate renews a certificate of an authority until ctx ends.
func keepCertificate(ctx context.Context, source certificate.Source, log *slog.Logger) {
	if acme, ok := source.(*certificate.ACME); ok {
		acme.Run(ctx, log)
	}
}

// reloadCertificate reloads the certificate's files, if it has any.
func reloadCertificate(source certificate.Source, log *slog.Logger) []reloadable {
	files, ok := source.(*certificate.Files)
	if !ok {
		return nil
	}
	return []reloadable{{"the certificate", func() ([]any, error) {
		if err := files.Reload(); err != nil {
			return nil, err
		}
		for _, warning := range files.Warnings() {
			log.Warn("TLS: " + warning)
		}
		return []any{"expires", files.Expiry()}, nil
	}}}
}
