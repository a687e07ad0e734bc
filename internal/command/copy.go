package command

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"worldevents/config"
	"worldevents/models/copydb"
)

// Copy copies the database into a file that does not exist, or into an empty database.
type Copy struct {
	To   string `required:"" placeholder:"URL" help:"sqlite:FILE, which must not exist, or postgres://…, which must be empty."`
	Hold bool   `help:"From SQLite: have nobody write to the database from the beginning of the copy until a signal ends this process, so that the copy stays equal."`
}

// Run copies the database. It changes nothing in the source and needs no key. The first signal ends the copy
// and undoes it. With --hold, once the copy is done, the signal lets others write again.
func (a Copy) Run() error {
	c, err := config.Load(false)
	if err != nil {
		return err
	}
	ctx := interruptible()
	progress := &copyProgress{progress: newProgress()}
	done := func(copied copydb.Result) error {
		progress.end()
		audit(c, "copy", "from", copied.From, "to", copied.To, "rows", copied.Rows)
		return printJSON(copied)
	}
	// With --hold the result is printed while the source is still held, and the process then waits. So whoever
	// reads the result knows that the copy is equal and stays so until the signal.
	options := copydb.Options{From: c.DatabaseURL, To: a.To, Timeout: c.DBTimeout, Note: progress.note, Progress: progress.report}
	var failed error
	if a.Hold {
		options.Hold = func(copied copydb.Result) {
			if failed = done(copied); failed == nil {
				<-ctx.Done()
			}
		}
	}
	copied, err := copydb.Copy(ctx, options)
	progress.end()
	switch {
	case err != nil:
		return fmt.Errorf("copy: %w", err)
	case a.Hold:
		return failed
	}
	return done(copied)
}

// copyProgress tells how far a copy has come: one line at the beginning of each step, and then others now and
// then.
type copyProgress struct {
	*progress
	step  copydb.Step
	begun time.Time // the step
}

func (p *copyProgress) report(at copydb.Progress) {
	if at.Step != p.step {
		p.step, p.begun = at.Step, time.Now()
		p.write(describeProgress(at, 0))
		return
	}
	p.tell(describeProgress(at, time.Since(p.begun)))
}

// describeProgress is one line. It has the time that is left as soon as that can be guessed.
func describeProgress(at copydb.Progress, took time.Duration) string {
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
