package logs

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf16"

	"worldevents/config"
)

// Stderr gets the log of this process, and the error that ends it.
var Stderr = newQueue(os.Stderr)

// Level is the level of both logs. SIGHUP changes it while the process serves.
var Level slog.LevelVar

// New returns the log of events and that of requests. Both write to Stderr, in the order of their lines.
func New(c *config.Config) (log, accessLog *slog.Logger) {
	Level.Set(c.LogLevel)
	log, accessLog = newLog(c, Stderr, &Level), newLog(c, requestLines{Stderr}, &Level)
	Stderr.log.Store(log)
	return log, accessLog
}

// At returns the log of events with a level of its own.
func At(c *config.Config, level slog.Leveler) *slog.Logger { return newLog(c, Stderr, level) }

func newLog(c *config.Config, w io.Writer, level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if isJournal(os.Stderr) {
		w = journal{w}
	}
	w = visible{w}
	if c.LogFormat == "text" {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

// visible escapes invisible characters as JSON does (RFC 8259 section 7): a client may have sent them to forge a line. A decoded line of
// JSON has the same text. In text slog has quoted nearly all of it before.
type visible struct{ io.Writer }

// Write implements io.Writer.
func (v visible) Write(line []byte) (int, error) {
	if !bytes.ContainsFunc(line, func(r rune) bool { return r >= 0x7f }) { // as nearly all
		return v.Writer.Write(line)
	}
	var seen strings.Builder
	for _, r := range string(line) {
		if r < 0x7f || unicode.IsPrint(r) {
			seen.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&seen, `\u%04x`, unit)
		}
	}
	_, err := io.WriteString(v.Writer, seen.String())
	return len(line), err
}

const (
	// maxQueuedLines bounds the lines that are queued. Those of requests may take half of it.
	maxQueuedLines = 4096
	// gatherInterval is how long a line is queued for others to come, so that one system call writes them all.
	gatherInterval = 10 * time.Millisecond
	// logRetryInterval is how long the log rests after a write that failed.
	logRetryInterval = 250 * time.Millisecond
	// logFlushTimeout is how long the end of the process waits for a log that nobody reads.
	logFlushTimeout = time.Second
)

// Queue writes lines to a file or pipe that may be full, broken or not read, and blocks nobody. One goroutine writes, in order. While
// maxQueuedLines are queued, new lines are dropped and counted. After an error it tries again for ever.
type Queue struct {
	out     io.Writer
	lines   chan []byte   // each whole
	flushes chan struct{} // a token has all that is queued written at once
	dropped atomic.Int64
	log     atomic.Pointer[slog.Logger] // gets a line that says how many were dropped; nil for none
}

func newQueue(out io.Writer) *Queue {
	q := &Queue{out: out, lines: make(chan []byte, maxQueuedLines), flushes: make(chan struct{})}
	go q.run()
	return q
}

// Write implements io.Writer. It never fails.
func (q *Queue) Write(line []byte) (int, error) {
	select {
	case q.lines <- bytes.Clone(line):
	default:
		q.dropped.Add(1)
	}
	return len(line), nil
}

// requestLines queues lines of requests, which leave half of the queue to others.
type requestLines struct{ *Queue }

// Write implements io.Writer. It never fails.
func (r requestLines) Write(line []byte) (int, error) {
	if len(r.lines) < maxQueuedLines/2 {
		return r.Queue.Write(line)
	}
	r.dropped.Add(1)
	return len(line), nil
}

// Dropped returns the number of dropped lines.
func (q *Queue) Dropped() int64 { return q.dropped.Load() }

// Flush waits until all lines are written, for no longer than logFlushTimeout.
func (q *Queue) Flush() {
	timeout := time.After(logFlushTimeout)
	for range 2 { // the second token is taken once the first has had all written
		select {
		case q.flushes <- struct{}{}:
		case <-timeout:
			return
		}
	}
}

const unread = "it was not read fast enough"

func (q *Queue) run() {
	var lines []byte
	var reported int64 // dropped lines
	cause := unread
	for {
		lines = lines[:0]
		select {
		case <-q.flushes:
		case line := <-q.lines:
			lines = append(lines, line...)
			select {
			case <-q.flushes:
			case <-time.After(gatherInterval):
			}
		}
		for range len(q.lines) {
			lines = append(lines, <-q.lines...)
		}
		if log, dropped := q.log.Load(), q.Dropped(); log != nil && dropped > reported {
			log.Warn("log lines were dropped", "lines", dropped-reported, "cause", cause) // there is room now
			reported = dropped
		}
		cause = q.write(lines)
	}
}

// write tries until all lines are written: a line goes on where an error has cut it. It returns the last error, or unread, as the cause of
// lines that were dropped meanwhile.
func (q *Queue) write(lines []byte) (cause string) {
	cause = unread
	for len(lines) > 0 {
		n, err := q.out.Write(lines)
		if lines = lines[n:]; err != nil {
			cause = err.Error()
			time.Sleep(logRetryInterval)
		}
	}
	return cause
}

// OneLine returns the text of an error, perhaps several joined, in one line.
func OneLine(err error) string {
	return strings.NewReplacer(":\n\t", ": ", "\n\t", "; ", "\n", "; ").Replace(err.Error())
}
