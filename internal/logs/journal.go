package logs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"
)

// isJournal reports whether a file is the stream to systemd's journal that JOURNAL_STREAM names
// (systemd.exec(5)). The variable alone proves nothing, since a child process inherits it with another stderr.
func isJournal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && os.Getenv("JOURNAL_STREAM") == fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
}

// journalHandler begins each line with its priority. The journal takes that away and keeps it (sd-daemon(3)).
type journalHandler struct{ debug, info, warn, err slog.Handler }

// newJournalHandler makes a handler for each priority over w. A handler writes a line at once, so that the
// priority stands in front of the whole line.
func newJournalHandler(w io.Writer, make func(io.Writer) slog.Handler) journalHandler {
	at := func(priority string) slog.Handler { return make(prefixed{priority, w}) }
	return journalHandler{at("<7>"), at("<6>"), at("<4>"), at("<3>")}
}

func (h journalHandler) of(level slog.Level) slog.Handler {
	switch {
	case level >= slog.LevelError:
		return h.err
	case level >= slog.LevelWarn:
		return h.warn
	case level >= slog.LevelInfo:
		return h.info
	}
	return h.debug
}

// Enabled implements slog.Handler.
func (h journalHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.of(level).Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h journalHandler) Handle(ctx context.Context, r slog.Record) error {
	return h.of(r.Level).Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return journalHandler{h.debug.WithAttrs(attrs), h.info.WithAttrs(attrs), h.warn.WithAttrs(attrs), h.err.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h journalHandler) WithGroup(name string) slog.Handler {
	return journalHandler{h.debug.WithGroup(name), h.info.WithGroup(name), h.warn.WithGroup(name), h.err.WithGroup(name)}
}

// prefixed puts a text in front of each write, which is one line.
type prefixed struct {
	prefix string
	io.Writer
}

// Write implements io.Writer.
func (p prefixed) Write(line []byte) (int, error) {
	if _, err := p.Writer.Write(append([]byte(p.prefix), line...)); err != nil {
		return 0, err
	}
	return len(line), nil
}
