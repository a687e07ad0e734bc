package observe

import (
	"log/slog"
	"time"
)

// line is a request's log line without its series. It omits absent ids and codes, work below a microsecond, and waits below 0.1 ms. The
// source position is empty, since it would always be the same.
func (req *Request) line(status int, bytes int64, took time.Duration) slog.Record {
	head := req.head
	if head == nil {
		head = req.newHead()
	}
	line := slog.NewRecord(req.begun.Add(took), slog.LevelInfo, "request", 0)
	line.AddAttrs(
		slog.String("request_id", req.ID),
		slog.Int("status", status),
		slog.Float64("duration_ms", milliseconds(took)),
		slog.Int64("bytes", bytes),
		slog.String("client", req.Client()),
		slog.String("path", head.path),
	)
	if req.Series.method == "" {
		line.AddAttrs(slog.String("method", cut(req.HTTP.Method, maxLoggedMethod)))
	}
	for _, text := range [...]struct{ name, value string }{
		{"code", req.Code},
		{"user", req.UserID},
		{"world", req.WorldID},
		{"event_id", req.EventID},
		{"trace_id", head.traceID},
	} {
		if text.value != "" {
			line.AddAttrs(slog.String(text.name, text.value))
		}
	}
	if ms := milliseconds(req.Usage.Work); ms > 0 {
		line.AddAttrs(slog.Float64("db_ms", ms))
	}
	for _, wait := range [...]struct {
		name  string
		value time.Duration
	}{
		{"db_wait_ms", req.Usage.Wait},
		{"turn_wait_ms", req.QueueWait},
		{"news_wait_ms", req.NewsWait},
		{"client_wait_ms", req.ClientWait},
	} {
		if wait.value >= minLoggedWait {
			line.AddAttrs(slog.Float64(wait.name, milliseconds(wait.value)))
		}
	}
	return line
}

// minLoggedWait is the shortest logged wait: less is the time of asking whether to wait.
const minLoggedWait = 100 * time.Microsecond

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
