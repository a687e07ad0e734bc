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

func printJSON(v any) error {
	text, err := encode(v)
	if err == nil {
		_, err = os.Stdout.Write(append(text, '\n'))
	}
	return err
}

// printArray prints all that list calls print with as one JSON array, an element to a line.
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

const (
	// terminalInterval is how often the line on a terminal changes, lineInterval how often another line is written elsewhere.
	terminalInterval = 200 * time.Millisecond
	lineInterval     = 5 * time.Second
)

// progress tells on stderr how far a command is: on a terminal in one line that is written over, elsewhere in a line now and
// then.
type progress struct {
	out      io.Writer
	terminal bool
	told     time.Time
	shown    bool // a line stands on the terminal
}

func newProgress() *progress {
	return &progress{out: logs.Stderr, terminal: isatty.IsTerminal(os.Stderr.Fd()), told: time.Now()}
}

// tell writes how far the command is, unless it has just done so.
func (p *progress) tell(line string) {
	interval := lineInterval
	if p.terminal {
		interval = terminalInterval
	}
	if time.Since(p.told) >= interval {
		p.write(line)
	}
}

// write writes a line in any case.
func (p *progress) write(line string) {
	p.told = time.Now()
	if p.shown = p.terminal; p.shown {
		fmt.Fprintf(p.out, "\r\x1b[K%s", line)
	} else {
		fmt.Fprintln(p.out, line)
	}
}

// note writes a line of words, which stays.
func (p *progress) note(text string) {
	p.end()
	fmt.Fprintln(p.out, "worldevents:", text)
}

// end removes what stands on a terminal.
func (p *progress) end() {
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.shown = false
	}
}

func given(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
