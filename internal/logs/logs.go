package logs

import (
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"worldevents/config"
)

// Stderr is where this process writes its log, and at the end the error that ends it.
var Stderr = newQueue(os.Stderr)

// Level is the level of both logs. SIGHUP changes it while the process serves.
var Level slog.LevelVar

// New returns the two logs of the process, one of events and one of requests. Both write to Stderr and keep the
// order of their lines.
func New(c *config.Config) (log, accessLog *slog.Logger) {
	Level.Set(c.LogLevel)
	log, accessLog = newLog(c, Stderr, &Level), newLog(c, gatheredLines{Stderr}, &Level)
	report := func(dropped int64, err error) {
		cause := "it was not read fast enough"
		if err != nil {
			cause = err.Error()
		}
		log.Warn("log lines were dropped", "lines", dropped, "cause", cause)
	}
	Stderr.report.Store(&report)
	return log, accessLog
}

// At returns the log of events with a level of its own.
func At(c *config.Config, level slog.Leveler) *slog.Logger { return newLog(c, Stderr, level) }

// newLog returns a log in the format of the configuration.
func newLog(c *config.Config, w io.Writer, level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if isJournal(os.Stderr) {
		w = journal{w}
	}
	if c.LogFormat == "text" {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

const (
	// maxQueuedLines bounds in bytes the lines that are queued. Lines of requests may take half of it, so that
	// they do not push out what matters more.
	maxQueuedLines = 2 << 20
	// gatherInterval is how long the line of a request may be queued for others to come, so that one system
	// call writes them all.
	gatherInterval = 10 * time.Millisecond
	// logRetryInterval is how long the log rests after a write that failed.
	logRetryInterval = 250 * time.Millisecond
	// logFlushTimeout is how long the end of the process waits for a log that nobody reads.
	logFlushTimeout = time.Second
	// keptBuffer is the largest buffer that is used again, in bytes.
	keptBuffer = 256 << 10
)

// Queue writes lines to a file or pipe that may be full, broken or not read, and makes nobody wait for it. One
// goroutine writes, in order. Lines that come while maxQueuedLines are queued are dropped and counted. After an
// error it tries again for ever: a disk may have room again, and a named pipe a new reader.
type Queue struct {
	out     io.Writer
	wake    chan struct{}      // holds one token while there is something to write
	flushes chan chan struct{} // each is closed once all lines before it are written
	dropped atomic.Int64
	// scheduled means that wake will get its token within gatherInterval.
	scheduled atomic.Bool

	// report is called when lines are written again after some were dropped: with their number, and the error that was the reason;
	// nil if writing took too long.
	report atomic.Pointer[func(dropped int64, err error)]

	mu    sync.Mutex
	lines []byte // that are queued, each whole
}

func newQueue(out io.Writer) *Queue {
	q := &Queue{out: out, wake: make(chan struct{}, 1), flushes: make(chan chan struct{})}
	go q.run()
	return q
}

// Write queues a line to be written at once (io.Writer). It never fails.
func (q *Queue) Write(line []byte) (int, error) {
	if q.add(line, maxQueuedLines) {
		q.signal()
	}
	return len(line), nil
}

// gatheredLines queues lines that may be written a little later, together with others.
type gatheredLines struct{ *Queue }

// Write implements io.Writer. It never fails.
func (g gatheredLines) Write(line []byte) (int, error) {
	if g.add(line, maxQueuedLines/2) && g.scheduled.CompareAndSwap(false, true) {
		time.AfterFunc(gatherInterval, g.signal)
	}
	return len(line), nil
}

// add reports whether there was room for the line.
func (q *Queue) add(line []byte, limit int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines)+len(line) > limit {
		q.dropped.Add(1)
		return false
	}
	q.lines = append(q.lines, line...)
	return true
}

func (q *Queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Dropped returns how many lines were dropped.
func (q *Queue) Dropped() int64 { return q.dropped.Load() }

// Flush waits until all lines are written, for no longer than logFlushTimeout.
func (q *Queue) Flush() {
	timeout := time.After(logFlushTimeout)
	done := make(chan struct{})
	select {
	case q.flushes <- done:
		select {
		case <-done:
		case <-timeout:
		}
	case <-timeout:
	}
}

func (q *Queue) run() {
	var spare []byte
	var reported int64 // of the lines that were dropped
	for {
		var flushed chan struct{}
		select {
		case <-q.wake:
		case flushed = <-q.flushes:
		}
		lines := q.take(spare)
		err := q.writeAll(lines)
		if flushed != nil {
			close(flushed)
		}
		if report, dropped := q.report.Load(), q.Dropped(); report != nil && dropped > reported {
			(*report)(dropped-reported, err)
			reported = dropped
		}
		if spare = lines[:0]; cap(spare) > keptBuffer {
			spare = nil
		}
	}
}

// take returns the queued lines. Those to come are gathered in spare.
func (q *Queue) take(spare []byte) []byte {
	q.scheduled.Store(false) // a line that is added from here on schedules itself
	q.mu.Lock()
	defer q.mu.Unlock()
	lines := q.lines
	q.lines = spare
	return lines
}

// writeAll writes all lines, however often it must try: a line goes on where an error has cut it. It returns the error of the last
// attempt that failed.
func (q *Queue) writeAll(lines []byte) (failed error) {
	for len(lines) > 0 {
		n, err := q.out.Write(lines)
		if lines = lines[n:]; err != nil {
			failed = err
			time.Sleep(logRetryInterval)
		}
	}
	return failed
}

// OneLine is an error, which may be several joined, in one line.
func OneLine(err error) string {
	return strings.NewReplacer(":\n\t", ": ", "\n\t", "; ", "\n", "; ").Replace(err.Error())
}
