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
	// With --hold the result is printed while the source is still held, and the process then waits. So whoever
	// reads the result knows that the copy is equal and stays so until the signal.
	var failed error
	done := func(copied copydb.Result) {
		audit(c, "copy", "from", copied.From, "to", copied.To, "rows", copied.Rows)
		if failed = printJSON(copied); failed == nil && a.Hold {
			<-ctx.Done()
		}
	}
	err = copydb.Copy(ctx, copydb.Options{From: c.DatabaseURL, To: a.To, Timeout: c.DBTimeout, Note: note, Progress: progress(), Done: done, Hold: a.Hold})
	if err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	return failed
}
