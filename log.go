package main

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"worldevents/config"
)

// logDelay is how long a line of no urgency may wait to be written together with others.
const logDelay = 50 * time.Millisecond

// bufferedLog writes lines together: a system call for each request would be a tenth of its time. What is a warning
// or worse is written at once, with all before it.
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
	return slog.New(urgent{handler, b}), b.flush
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

// urgent has warnings and errors written at once.
type urgent struct {
	slog.Handler
	log *bufferedLog
}

func (u urgent) Handle(ctx context.Context, r slog.Record) error {
	err := u.Handler.Handle(ctx, r)
	if r.Level >= slog.LevelWarn {
		u.log.flush()
	}
	return err
}
