package command

import (
	"fmt"

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
	done := func(copied copydb.Result) error {
		audit(c, "copy", "from", copied.From, "to", copied.To, "rows", copied.Rows)
		return printJSON(copied)
	}
	// With --hold the result is printed while the source is still held, and the process then waits. So whoever
	// reads the result knows that the copy is equal and stays so until the signal.
	options := copydb.Options{From: c.DatabaseURL, To: a.To, Timeout: c.DBTimeout, Note: note, Progress: progress()}
	var failed error
	if a.Hold {
		options.Hold = func(copied copydb.Result) {
			if failed = done(copied); failed == nil {
				<-ctx.Done()
			}
		}
	}
	copied, err := copydb.Copy(ctx, options)
	switch {
	case err != nil:
		return fmt.Errorf("copy: %w", err)
	case a.Hold:
		return failed
	}
	return done(copied)
}
