package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"worldevents/config"
	"worldevents/models/copydb"
)

// Copy copies the database into a file that does not exist, or into an empty database.
type Copy struct {
	To   string `required:"" placeholder:"URL" help:"sqlite:FILE, which must not exist, or postgres://…, which must be empty. FOLDER/ makes a file there that has the time in UTC as its name."`
	Keep *int   `placeholder:"N" help:"With --to FOLDER/: afterwards delete all but the newest N of the files with such names."`
	Hold bool   `help:"From SQLite: have nobody write to the database from the beginning of the copy until a signal ends this process, so that the copy stays equal."`
}

// Run copies the database. The first signal ends the copy and undoes it. With --hold, once the copy is done, it lets others write again.
func (a Copy) Run() error {
	folder, isFolder := strings.CutSuffix(strings.TrimPrefix(a.To, "sqlite:"), "/")
	isFolder = isFolder && !strings.Contains(a.To, "://")
	if a.Keep != nil && (!isFolder || *a.Keep < 1) {
		return errors.New("--keep: must be 1 or more, and goes with --to FOLDER/")
	}
	c, err := config.Load(false)
	if err != nil {
		return err
	}
	var made string // the folder, if it is new
	if isFolder {
		folder = filepath.Clean(folder + "/")
		if err := os.Mkdir(folder, 0o700); err == nil {
			made = folder
		} else if !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("copy: %w", err)
		}
		a.To = "sqlite:" + filepath.Join(folder, time.Now().UTC().Format(backupName))
	}
	ctx := interruptible()
	// With --hold the result is printed while the source is still locked: the copy is equal and stays so until the signal.
	var failed, undeleted error
	done := func(copied copydb.Result) {
		about := []any{"from", copied.From, "to", copied.To, "rows", copied.Rows}
		if a.Keep != nil {
			var deleted int
			deleted, undeleted = deleteBackups(folder, *a.Keep, time.Now())
			about = append(about, "deleted", deleted)
		}
		audit(c, "copy", about...)
		if failed = printJSON(copied); failed == nil && a.Hold {
			<-ctx.Done()
		}
	}
	err = copydb.Copy(ctx, copydb.Options{From: c.DatabaseURL, To: a.To, Timeout: c.DBTimeout, Note: note, Progress: progress(), Done: done, Hold: a.Hold})
	if err != nil {
		os.Remove(made) // if nothing is in it
		return fmt.Errorf("copy: %w", err)
	}
	return errors.Join(failed, undeleted)
}

// backupName is the layout of the names of copies in a folder. Runbooks look for it.
const backupName = "20060102T150405Z.db"

// deleteBackups deletes the backups of a folder but the newest ones, and counts them. A name later than now comes of a clock that was
// ahead, and a restore would take that file for the newest: then it deletes nothing.
func deleteBackups(folder string, keep int, now time.Time) (deleted int, err error) {
	entries, err := os.ReadDir(folder) // in the order of names
	if err != nil {
		return 0, err
	}
	var names []string
	for _, entry := range entries {
		name := entry.Name()
		if at, err := time.Parse(backupName, name); err != nil || at.Format(backupName) != name || !entry.Type().IsRegular() {
			continue
		}
		if name > now.UTC().Format(backupName) {
			return 0, fmt.Errorf("%s has a later time in its name than now: move it away", name)
		}
		names = append(names, name)
	}
	for _, name := range names[:max(0, len(names)-keep)] {
		if err := os.Remove(filepath.Join(folder, name)); err != nil && !errors.Is(err, os.ErrNotExist) { // another copy deletes them, too
			return deleted, err
		}
		deleted++
	}
	return deleted, nil
}
