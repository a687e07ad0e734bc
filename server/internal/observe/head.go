package observe

import (
	"net/http"
	"regexp"
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

// traceparent is version, trace-id, parent-id and flags (W3C Trace Context section 3.2). Later versions than 00 may have more behind.
var traceparent = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$`)

// traceID returns the trace-id of the header traceparent, or "" if there is none or it is not valid.
func traceID(h http.Header) string {
	lines := h["Traceparent"]
	if len(lines) != 1 {
		return ""
	}
	fields := traceparent.FindStringSubmatch(lines[0])
	if fields == nil || fields[1] == "ff" || fields[1] == "00" && fields[4] != "" || isZeros(fields[2]) || isZeros(fields[3]) {
		return ""
	}
	return fields[2]
}

func isZeros(text string) bool { return strings.Trim(text, "0") == "" }
