package observe

import (
	"net/http"
	"regexp"
	"strings"
)

// head is the log's part of a request's head.
type head struct{ path, traceID string }

func (req *Request) newHead() *head {
	// The query may have secrets.
	return &head{cut(req.HTTP.URL.EscapedPath(), maxLoggedPath), traceID(req.HTTP.Header)}
}

const (
	maxLoggedPath   = 512
	maxLoggedMethod = 32
)

// cut shortens text to most bytes and an ellipsis.
func cut(text string, most int) string {
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}

// traceparent is version, trace-id, parent-id and flags (W3C Trace Context section 3.2). Versions after 00 may have more.
var traceparent = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$`)

// traceID returns the trace-id of a valid traceparent, or "".
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
