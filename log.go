package main

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"worldevents/config"
	"worldevents/server"
)

// logDelay is how long the line of a request may wait to be written together with others.
const logDelay = 10 * time.Millisecond

// bufferedLog writes the lines of requests together: a system call for each would be a tenth of a request's time. Any
// other line is written at once, with all before it.
type bufferedLog struct {
	mu     sync.Mutex
	out    *bufio.Writer
	waking bool // a flush is on its way
}

// newLog returns the log that the configuration asks for, and how to write what it still holds.
func newLog(c *config.Config, w io.Writer) (log *slog.Logger, flush func()) {
	b := &bufferedLog{out: bufio.NewWriterSize(w, 64<<10)}
	options := &slog.HandlerOptions{Level: c.LogLevel}
	var handler slog.Handler = slog.NewJSONHandler(b, options)
	if c.LogFormat == "text" {
		handler = slog.NewTextHandler(b, options)
	}
	return slog.New(prompt{handler, b}), b.flush
}

func (b *bufferedLog) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.waking {
		b.waking = true
		time.AfterFunc(logDelay, b.flush)
	}
	return b.out.Write(p)
}

func (b *bufferedLog) flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waking = false
	b.out.Flush()
}

// prompt has all lines but those of requests written at once.
type prompt struct {
	slog.Handler
	log *bufferedLog
}

func (p prompt) WithAttrs(attrs []slog.Attr) slog.Handler {
	return prompt{p.Handler.WithAttrs(attrs), p.log}
}

func (p prompt) WithGroup(name string) slog.Handler { return prompt{p.Handler.WithGroup(name), p.log} }

func (p prompt) Handle(ctx context.Context, r slog.Record) error {
	err := p.Handler.Handle(ctx, r)
	if r.Message != server.RequestLine {
		p.log.flush()
	}
	return err
}
