package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"

	"worldevents/internal/logs"
)

// printJSON prints one value on stdout, in one line.
func printJSON(v any) error {
	text, err := encode(v)
	if err == nil {
		_, err = os.Stdout.Write(append(text, '\n'))
	}
	return err
}

// printArray prints as one JSON array what list calls print with, one element in a line. The elements are never
// all in memory. After an error the array has no end, so that no reader takes it for whole.
func printArray(list func(print func(any) error) error) error {
	out := bufio.NewWriter(os.Stdout)
	before, after := "[\n", "[]\n"
	err := list(func(v any) error {
		text, err := encode(v)
		if err == nil {
			out.WriteString(before)
			_, err = out.Write(text)
		}
		before, after = ",\n", "\n]\n"
		return err
	})
	if err != nil {
		return err
	}
	out.WriteString(after)
	return out.Flush()
}

// encode is json.Marshal without the escapes that only HTML needs.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// linesOf are what commands print about all of a list: [] and not null if it is empty.
func linesOf[T, Line any](all []T, line func(T) Line) []Line {
	printed := make([]Line, 0, len(all))
	for _, one := range all {
		printed = append(printed, line(one))
	}
	return printed
}

const (
	// terminalInterval is how often the line on a terminal changes. lineInterval is how often another line is
	// written elsewhere.
	terminalInterval = 200 * time.Millisecond
	lineInterval     = 5 * time.Second
)

// progress tells on stderr how far a command has come. On a terminal it writes over one line; elsewhere, as in
// a log, it writes a new line now and then.
type progress struct {
	out      io.Writer
	terminal bool
	told     time.Time
	shown    bool // a line stands on the terminal
}

func newProgress() *progress {
	return &progress{out: logs.Stderr, terminal: isatty.IsTerminal(os.Stderr.Fd()), told: time.Now()}
}

// tell writes how far the command has come, unless it has done so a moment ago.
func (p *progress) tell(line string) {
	interval := lineInterval
	if p.terminal {
		interval = terminalInterval
	}
	if time.Since(p.told) >= interval {
		p.write(line)
	}
}

// write writes a line at once.
func (p *progress) write(line string) {
	p.told = time.Now()
	if p.shown = p.terminal; p.shown {
		fmt.Fprintf(p.out, "\r\x1b[K%s", line)
	} else {
		fmt.Fprintln(p.out, line)
	}
}

// note writes a line that stays.
func (p *progress) note(text string) {
	p.end()
	fmt.Fprintln(p.out, "worldevents:", text)
}

// end removes the line that stands on a terminal.
func (p *progress) end() {
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.shown = false
	}
}

// given counts a flag that was given, so that a sum says how many were.
func given(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
