package observe

import (
	"net/http"
	"strings"
)

// head is what the log says of a request's head.
type head struct{ path, traceID, proxyRequestID string }

func (req *Request) newHead() *head {
	return &head{loggedPath(req.HTTP), traceID(req.HTTP.Header), req.observer.proxyRequestID(req.HTTP)}
}

// maxLoggedPath and maxLoggedMethod bound what the log has of the request line, in bytes.
const (
	maxLoggedPath   = 512
	maxLoggedMethod = 32
)

// loggedPath is the path of a request, escaped and without the query, in which there may be secrets.
func loggedPath(r *http.Request) string { return cut(r.URL.EscapedPath(), maxLoggedPath) }

// cut returns text, or of a longer one its first most bytes and an ellipsis.
func cut(text string, most int) string {
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}

// maxProxyRequestID bounds the id of a proxy, in bytes.
const maxProxyRequestID = 128

// proxyRequestID returns the X-Request-Id of a request, by which a proxy in front knows it: 1 to 128 visible ASCII
// characters. It believes trusted proxies alone, as Client does: whoever can choose the id could make the log speak of a
// request of somebody else.
func (o *Observer) proxyRequestID(r *http.Request) string {
	if len(o.TrustedProxies) == 0 {
		return ""
	}
	ids := r.Header["X-Request-Id"]
	invisible := func(r rune) bool { return r <= ' ' || r > '~' }
	if len(ids) != 1 || len(ids[0]) > maxProxyRequestID || strings.ContainsFunc(ids[0], invisible) || !o.isFromProxy(r) {
		return ""
	}
	return ids[0]
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

func isLowerHex(text string) bool { return strings.Trim(text, "0123456789abcdef") == "" }

func isZeros(text string) bool { return strings.Trim(text, "0") == "" }
