package server

import (
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

// maxAttributes is how many fields the line of a request can have, besides those of its operation.
const maxAttributes = 18

// requestAttributes appends to line the fields of a request's line that its operation does not have. Those that say nothing
// are left out: ids and codes that there are none of, work of less than a microsecond, and waits of less than 0.1 ms.
func (s *Server) requestAttributes(line []slog.Attr, c echo.Context, req *request, status int, took time.Duration) []slog.Attr {
	head := req.head
	if head == nil {
		head = s.newLoggedHead(req)
	}
	line = append(line,
		slog.String("request_id", req.requestID),
		slog.Int("status", status),
		slog.Float64("duration_ms", milliseconds(took)),
		slog.Int64("bytes", c.Response().Size-req.dropped),
		slog.String("client", s.client(req)),
		slog.String("path", head.path),
	)
	if req.operation.method == "" {
		line = append(line, slog.String("method", cut(req.request.Method, maxLoggedMethod)))
	}
	for _, text := range [...]struct{ name, value string }{
		{"code", req.code},
		{"user", req.userID},
		{"world", req.worldID},
		{"event_id", req.eventID},
		{"trace_id", head.traceID},
		{"proxy_request_id", head.proxyRequestID},
	} {
		if text.value != "" {
			line = append(line, slog.String(text.name, text.value))
		}
	}
	if ms := milliseconds(req.usage.Work); ms > 0 {
		line = append(line, slog.Float64("db_ms", ms))
	}
	for _, wait := range [...]struct {
		name  string
		value time.Duration
	}{
		{"db_wait_ms", req.usage.Wait},
		{"turn_wait_ms", req.turnWait + req.connection.Queued()},
		{"news_wait_ms", req.newsWait},
		{"client_wait_ms", req.connection.Stalled()},
	} {
		if wait.value >= minLoggedWait {
			line = append(line, slog.Float64(wait.name, milliseconds(wait.value)))
		}
	}
	return line
}

// loggedHead is what the log says of a request's head.
type loggedHead struct{ path, traceID, proxyRequestID string }

func (s *Server) newLoggedHead(req *request) *loggedHead {
	return &loggedHead{loggedPath(req.request), traceID(req.request.Header), s.proxyRequestID(req.request)}
}

// forget drops the head of a request, up to 16 KB, but for what its log line needs: it is about to wait.
func (s *Server) forget(req *request) {
	head := s.newLoggedHead(req)
	req.head = &loggedHead{strings.Clone(head.path), strings.Clone(head.traceID), strings.Clone(head.proxyRequestID)}
	req.client = strings.Clone(s.client(req))
	clear(req.request.Header) // net/http has the same map
}

// minLoggedWait is how long a wait must have been for the log to have it: less is the time of asking whether to wait.
const minLoggedWait = 100 * time.Microsecond

// milliseconds is a time in milliseconds, to the microsecond.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// maxLoggedPath and maxLoggedMethod bound what the log has of the request line, in bytes.
const (
	maxLoggedPath   = 512
	maxLoggedMethod = 32
)

// loggedPath is the path of a request, escaped and without the query, in which there may be secrets.
func loggedPath(r *http.Request) string { return cut(r.URL.EscapedPath(), maxLoggedPath) }

// cut returns text, of which what is beyond the first most bytes has become an ellipsis.
func cut(text string, most int) string {
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}

// maxProxyRequestID bounds the id of a proxy, in bytes.
const maxProxyRequestID = 128

// proxyRequestID returns the X-Request-Id of a request, by which a proxy in front knows it: 1 to 128 visible ASCII
// characters. It believes trusted proxies alone, as clientIP does: whoever can choose the id could make the log speak of a
// request of somebody else.
func (s *Server) proxyRequestID(r *http.Request) string {
	if len(s.proxies) == 0 {
		return ""
	}
	ids := r.Header["X-Request-Id"]
	if len(ids) != 1 || len(ids[0]) > maxProxyRequestID || !s.isFromProxy(r) {
		return ""
	}
	for _, b := range []byte(ids[0]) {
		if b <= ' ' || b > '~' {
			return ""
		}
	}
	return ids[0]
}

// isFromProxy reports whether a trusted proxy has sent the request.
func (s *Server) isFromProxy(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	address := peer.Addr().Unmap().WithZone("")
	for _, proxy := range s.proxies {
		if proxy.Contains(address) {
			return true
		}
	}
	return false
}

// traceID returns the trace-id of the header traceparent (W3C Trace Context section 3.2), or "" if there is none or it is
// not valid. A later version of the format may have more fields behind those of version 00.
func traceID(h http.Header) string {
	lines := h["Traceparent"]
	if len(lines) != 1 {
		return ""
	}
	const size = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	v := lines[0]
	if len(v) < size || v[2] != '-' || v[35] != '-' || v[52] != '-' {
		return ""
	}
	version, trace, parent, flags := v[:2], v[3:35], v[36:52], v[53:size]
	switch {
	case !isLowerHex(version) || !isLowerHex(trace) || !isLowerHex(parent) || !isLowerHex(flags),
		version == "ff", isZeros(trace), isZeros(parent),
		len(v) > size && (version == "00" || v[size] != '-'):
		return ""
	}
	return trace
}

func isLowerHex(text string) bool {
	for _, b := range []byte(text) {
		if (b < '0' || b > '9') && (b < 'a' || b > 'f') {
			return false
		}
	}
	return true
}

func isZeros(text string) bool {
	for _, b := range []byte(text) {
		if b != '0' {
			return false
		}
	}
	return true
}
