package copydb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"worldevents/models"
	"worldevents/models/internal/schema"
	"worldevents/models/internal/sqlite"
)

// sqliteTarget is a new SQLite file, for its owner alone: NAME.copying in the same folder until it is on disk.
type sqliteTarget struct {
	*sqliteSide     // nil before it is open
	name, temporary string
	file            *os.File // temporary
	published       bool
}

// sqliteSuffixes are those of the files beside a database. SQLite would take an old one for the new database's.
var sqliteSuffixes = []string{"-wal", "-shm", "-journal"}

// openSQLiteTarget makes the file, with the schema unless vacuum fills it. It refuses a name that is taken, also by a copy, or a killed
// one.
func (c *copying) openSQLiteTarget(ctx context.Context) error {
	name, err := filepath.Abs(c.to.file)
	if err == nil {
		err = checkFree(name)
	}
	if err != nil {
		return err
	}
	t := &sqliteTarget{name: name, temporary: name + ".copying"}
	t.file, err = os.OpenFile(t.temporary, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) // the operator names the file
	if errors.Is(err, os.ErrExist) {
		err = fmt.Errorf("%s exists: another copy into it is running, or a killed one left it: then remove it", t.temporary)
	}
	if err != nil {
		return err
	}
	c.target = t
	t.removeBeside() // what a killed copy has left
	if c.isWholeFile() {
		return nil
	}
	if err := makeSchema(ctx, models.Options{URL: "sqlite:" + t.temporary, Timeout: 2 * copyBusy}); err != nil {
		return err
	}
	return t.open(ctx)
}

// checkFree refuses the name of a file, or of a database whose log is left.
func checkFree(name string) error {
	if _, err := os.Lstat(name); err == nil {
		return errors.New("the file exists: name one that does not, or move it away")
	}
	for _, suffix := range sqliteSuffixes {
		if _, err := os.Lstat(name + suffix); err == nil {
			return fmt.Errorf("%s%s is left from another database: move it away", name, suffix)
		}
	}
	return nil
}

// open opens the file without a journal: nobody sees it before it is whole, or uses what a killed copy leaves.
func (t *sqliteTarget) open(ctx context.Context) (err error) {
	t.sqliteSide, err = openSQLite(ctx, t.temporary, "locking_mode(EXCLUSIVE)", "journal_mode(OFF)", "synchronous(OFF)", "cache_size(-16384)")
	return err
}

// vacuum makes the copy with VACUUM INTO (sqlite.org/lang_vacuum.html). It copies everything in the file, even if this program does not
// know it, but not the remains of deleted rows. The copy must show the same moment as the source's snapshot, with which it is compared. So
// writes have to wait until VACUUM has begun, which reads from one state, too.
func (c *copying) vacuum(ctx context.Context) error {
	source, t := c.source.(*sqliteSource), c.target.(*sqliteTarget)
	from, err := openSQLite(ctx, source.file)
	if err != nil {
		return err
	}
	defer from.Close()
	if !c.Hold {
		defer source.release()
	}
	done := make(chan error, 1)
	go func() { done <- from.Exec(ctx, "VACUUM INTO ?", t.temporary) }()
	var synced error
	for {
		select {
		case err := <-done:
			return errors.Join(err, synced, t.open(ctx), c.countRows(ctx))
		case <-time.After(20 * time.Millisecond):
			if info, err := t.file.Stat(); err == nil && info.Size() > 0 && !c.Hold {
				source.release()
			}
			synced = errors.Join(synced, t.file.Sync()) // not all of it at the end, as in write
		}
	}
}

// write syncs the rows at once. A sync of all at the end would delay every commit of a database on the same disk for seconds.
func (t *sqliteTarget) write(ctx context.Context, table schema.Table, rows [][]any) error {
	columns := schema.Columns[table.Name]
	if err := t.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	insert, err := t.PrepareContext(ctx, fmt.Sprintf("INSERT INTO %s (%s) VALUES (?%s)", table.Name, columns, strings.Repeat(", ?", strings.Count(columns, ","))))
	if err != nil {
		return err
	}
	defer insert.Close()
	for _, row := range rows {
		if _, err := insert.Exec(row...); err != nil {
			return fmt.Errorf("%w, in the row with %s", err, identify(table, row))
		}
	}
	return errors.Join(t.Exec(ctx, "COMMIT"), t.file.Sync())
}

// finish deletes the marks, which come from another file or the triggers, and their remains on the pages: they name worlds.
func (t *sqliteTarget) finish(ctx context.Context) error {
	err := t.Exec(ctx, `PRAGMA secure_delete = ON; DELETE FROM changes;
		UPDATE incarnation SET (horizon, next) = (SELECT seq, seq FROM sqlite_sequence WHERE name = 'changes') WHERE EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'changes')`)
	if err != nil {
		return err
	}
	var broken string
	err = t.Value(ctx, &broken, sqlite.BrokenReferences)
	if err == nil && broken != "" {
		err = errors.New(broken + ": the sqlite3 shell shows it with PRAGMA foreign_key_check")
	}
	return err
}

// commit syncs the file and then gives it its name, so that no crash leaves half of it under that name.
func (t *sqliteTarget) commit(context.Context) error {
	t.sqliteSide.Close() // now SQLite has written everything, and has no descriptor of the file
	if err := errors.Join(t.file.Sync(), checkFree(t.name)); err != nil {
		return err
	}
	if err := os.Rename(t.temporary, t.name); err != nil {
		return err
	}
	t.published = true
	folder, err := os.Open(filepath.Dir(t.name)) // the operator names it
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync() // the new name
}

func (t *sqliteTarget) Close() {
	if t.sqliteSide != nil {
		t.sqliteSide.Close()
	}
	if !t.published {
		t.removeBeside()
		os.Remove(t.temporary)
	}
	t.file.Close()
}

// removeBeside removes the files of SQLite beside the file.
func (t *sqliteTarget) removeBeside() {
	for _, suffix := range sqliteSuffixes {
		os.Remove(t.temporary + suffix)
	}
}
