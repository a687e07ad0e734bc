package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"

	"worldevents/config"
	"worldevents/models"
)

type copyCommand struct {
	To string `required:"" placeholder:"URL" help:"sqlite:FILE, which must not exist, or postgres://…, which must be empty."`
}

// Run copies the database. The first signal ends it and undoes what was done; a second one ends it at once.
func (a copyCommand) Run() error {
	c, err := config.Load(false)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	progress := newCopyProgress(stderr, isatty.IsTerminal(os.Stderr.Fd()))
	copied, err := models.Copy(ctx, models.CopyOptions{
		From: c.DatabaseURL, To: a.To, Timeout: c.DBTimeout,
		Note: progress.note, Progress: progress.report,
	})
	progress.end()
	if err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	audit(c, "copy", "from", copied.From, "to", copied.To, "rows", copied.Rows)
	return printJSON(struct {
		From     string           `json:"from"`
		To       string           `json:"to"`
		Rows     map[string]int64 `json:"rows"`
		Checksum string           `json:"checksum"`
	}(copied))
}

const (
	// terminalInterval is how often the line on a terminal changes, lineInterval how often another line is written elsewhere.
	terminalInterval = 100 * time.Millisecond
	lineInterval     = 10 * time.Second
)

// copyProgress tells how far a copy has come: in one line that changes on a terminal, in plain lines elsewhere.
type copyProgress struct {
	out      io.Writer
	terminal bool
	step     models.CopyStep
	begun    time.Time // the step
	written  time.Time // the last line
	width    int       // of the line on the terminal
}

func newCopyProgress(out io.Writer, terminal bool) *copyProgress {
	return &copyProgress{out: out, terminal: terminal}
}

// note writes a line of words.
func (p *copyProgress) note(text string) {
	p.end()
	fmt.Fprintln(p.out, "worldevents:", text)
}

// report writes how far a step has come, now and then.
func (p *copyProgress) report(at models.CopyProgress) {
	now := time.Now()
	interval := lineInterval
	if p.terminal {
		interval = terminalInterval
	}
	switch {
	case at.Step != p.step:
		p.step, p.begun = at.Step, now
	case now.Sub(p.written) < interval && (at.Done < at.Total || !p.terminal):
		return
	}
	p.written = now
	line := describeProgress(at, now.Sub(p.begun))
	if !p.terminal {
		fmt.Fprintln(p.out, line)
		return
	}
	fmt.Fprintf(p.out, "\r%-*s", p.width, line)
	p.width = len(line)
}

// end leaves the line on the terminal.
func (p *copyProgress) end() {
	if p.width > 0 {
		fmt.Fprintln(p.out)
		p.width = 0
	}
}

// describeProgress is one line, with the time left once it can be guessed.
func describeProgress(at models.CopyProgress, took time.Duration) string {
	if at.Total == 0 {
		return string(at.Step)
	}
	line := fmt.Sprintf("%s: %s of %s rows", at.Step, grouped(at.Done), grouped(at.Total))
	if took >= time.Second && at.Done > 0 {
		left := time.Duration(float64(took) / float64(at.Done) * float64(at.Total-at.Done))
		line += ", about " + left.Round(time.Second).String() + " left"
	}
	return line
}

// grouped writes a number with commas between thousands.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	var groups []string
	for len(text) > 3 {
		groups = append([]string{text[len(text)-3:]}, groups...)
		text = text[:len(text)-3]
	}
	return strings.Join(append([]string{text}, groups...), ",")
}
