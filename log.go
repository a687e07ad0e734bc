package main

import (
	"bufio"
	"io"
	"log/slog"
	"sync"
	"time"

	"worldevents/config"
)

// flushInterval is how long the line of a request may wait to be written together with others.
const flushInterval = 10 * time.Millisecond

// newLogs returns the two logs of the process, which share an output: that of events is written at once, with all
// before it; that of requests is buffered, since a system call for each line would be a tenth of a request's time.
// flush writes what the latter still holds.
func newLogs(c *config.Config, w io.Writer) (log, accessLog *slog.Logger, flush func()) {
	b := &bufferedWriter{out: bufio.NewWriterSize(w, 64<<10)}
	newLog := func(w io.Writer) *slog.Logger {
		options := &slog.HandlerOptions{Level: c.LogLevel}
		if c.LogFormat == "text" {
			return slog.New(slog.NewTextHandler(w, options))
		}
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return newLog(promptWriter{b}), newLog(b), b.flush
}

// bufferedWriter writes what has gathered once in a flushInterval.
type bufferedWriter struct {
	mu             sync.Mutex
	out            *bufio.Writer
	flushScheduled bool
}

// Write implements io.Writer.
func (b *bufferedWriter) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.flushScheduled {
		b.flushScheduled = true
		time.AfterFunc(flushInterval, b.flush)
	}
	return b.out.Write(p)
}

func (b *bufferedWriter) flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flushScheduled = false
	b.out.Flush()
}

// promptWriter writes at once.
type promptWriter struct{ *bufferedWriter }

// Write implements io.Writer.
func (p promptWriter) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := p.out.Write(line)
	p.out.Flush()
	return n, err
}
