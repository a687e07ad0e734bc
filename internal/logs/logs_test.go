package logs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode"

	"worldevents/config"
	"worldevents/tests/servicetest"
)

// disk takes so many bytes, and fails in the middle of a line.
type disk struct {
	mu   sync.Mutex
	room int
	text strings.Builder
}

func (d *disk) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(d.room, len(p))
	d.room -= n
	d.text.Write(p[:n])
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

func (d *disk) grow(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room += n
}

func (d *disk) lines() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Split(strings.TrimSuffix(d.text.String(), "\n"), "\n")
}

// However often writing fails in the middle of a line, each line is written whole, once and in order.
func TestLogQueueCutLines(t *testing.T) {
	t.Parallel()
	var want []string
	for i := range 30 {
		want = append(want, fmt.Sprintf(`{"line":"%02d"}`, i))
	}
	d := new(disk)
	q := newQueue(d)
	for i, line := range want {
		if i%2 == 0 {
			fmt.Fprintln(q, line)
		} else {
			fmt.Fprintln(requestLines{q}, line)
		}
	}
	for _, room := range []int{0, 5, 14, 1, 1, 40, 33} {
		d.grow(room)
		time.Sleep(logRetryInterval / 3) // whatever is tried meanwhile
	}
	d.grow(1 << 20)
	servicetest.Eventually(t, "all lines are written", func() bool { return len(d.lines()) >= len(want) })
	if got := d.lines(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if q.Dropped() != 0 {
		t.Errorf("%d dropped", q.Dropped())
	}
}

// stall is a pipe that nobody reads until it is closed.
type stall struct {
	disk
	begun, closed chan struct{}
}

func (s *stall) Write(p []byte) (int, error) {
	select {
	case s.begun <- struct{}{}:
	case <-s.closed:
	}
	<-s.closed
	return s.disk.Write(p)
}

// While nothing is written requests cannot push out what matters more, each dropped line is counted, and nobody waits.
func TestLogQueueStalls(t *testing.T) {
	t.Parallel()
	s := &stall{disk: disk{room: 1 << 30}, begun: make(chan struct{}), closed: make(chan struct{})}
	q := newQueue(s)
	q.log.Store(slog.New(slog.NewTextHandler(q, nil)))
	request := []byte(strings.Repeat("r", 1023) + "\n")
	requestLines{q}.Write(request)
	<-s.begun
	n := 1
	for q.Dropped() < 10 {
		requestLines{q}.Write(request)
		n++
	}
	for i := range 100 {
		fmt.Fprintln(q, "event", i)
	}
	if q.Dropped() != 10 {
		t.Errorf("%d dropped: events among them", q.Dropped())
	}
	for q.Dropped() < 20 {
		q.Write(request)
		n++
	}
	begin := time.Now()
	q.Flush()
	if took := time.Since(begin); took < logFlushTimeout {
		t.Errorf("flush waited only %v for what was not written", took)
	}
	close(s.closed)
	report := regexp.MustCompile(`msg="log lines were dropped" lines=20 cause="it was not read fast enough"$`)
	requests, events := 0, 0
	servicetest.Eventually(t, "the last line says what was dropped", func() bool {
		lines := s.lines()
		return report.MatchString(lines[len(lines)-1])
	})
	for _, line := range s.lines() {
		if line == fmt.Sprint("event ", events) {
			events++
		} else if line+"\n" == string(request) {
			requests++
		}
	}
	if requests != n-20 || events != 100 {
		t.Errorf("%d of %d requests, %d events", requests, n-20, events)
	}
}

// flush writes the last lines, however short their time was.
func TestLogQueueFlush(t *testing.T) {
	t.Parallel()
	d := &disk{room: 1 << 20}
	q := newQueue(d)
	for i := range 1000 {
		fmt.Fprintln(requestLines{q}, i)
		q.Flush()
		if lines := d.lines(); lines[len(lines)-1] != fmt.Sprint(i) {
			t.Fatalf("%d: %q", i, lines[len(lines)-1])
		}
	}
}

// Nothing that a client sends hides or turns round a part of a line, in either format, and a line of JSON decodes to what was sent.
func TestHiddenCharacters(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"plain", "Zoë ❤ 李", "a\u202eb", "a\u2066b\u2069", "\u200b", "\u00a0", "\u0085", "a\U000e0061b", "\U0010ffff", "\ufeff", "\u2028", "\x7f", "\x1b[2J", "q\"\\u202e\u202e",
	} {
		for _, format := range []string{"json", "text"} {
			var line bytes.Buffer
			newLog(&config.Config{LogFormat: format}, &line, slog.LevelInfo).Info("m", "world", text)
			if i := bytes.IndexFunc(line.Bytes(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
				t.Errorf("%s %q: %q", format, text, line.String())
			}
			var decoded struct{ World string }
			if err := json.Unmarshal(line.Bytes(), &decoded); format == "json" && (err != nil || decoded.World != text) {
				t.Errorf("%q is decoded as %q: %v", text, decoded.World, err)
			}
		}
	}
}
