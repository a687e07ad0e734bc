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
	"worldevents/models/internal/dberr"
	"worldevents/models/internal/schema"
	"worldevents/models/internal/sqlite"
)

// sqliteTarget is a SQLite file that is being made: as NAME.copying in the same folder, and for its owner alone. It gets its name once it
// is on disk.
type sqliteTarget struct {
	*sqliteSide     // nil before it is open
	name, temporary string
	file            *os.File // temporary
	published       bool
	restore         string // statements that make the dropped indexes and triggers; "" from another file
}

// sqliteSuffixes are those of the files that SQLite keeps beside a database. SQLite would take one that is left
// there for the new database's.
var sqliteSuffixes = []string{"-wal", "-shm", "-journal"}

// openSQLiteTarget makes the file. It refuses a name that is taken, and one into which another copy is running or was killed. From another
// file vacuum fills it; otherwise it gets the schema, but without indexes, which are made quicker at the end, and triggers, which would
// leave marks.
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
		err = fmt.Errorf("%s is there: another copy into it is running, or one was killed: then remove it", t.temporary)
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
	if err := t.open(ctx); err != nil {
		return err
	}
	var drop string
	err = t.QueryRowContext(ctx, `SELECT group_concat(sql, ';'), group_concat('DROP ' || type || ' ' || name, ';')
		FROM sqlite_schema WHERE type IN ('index', 'trigger') AND sql IS NOT NULL`).Scan(&t.restore, &drop)
	if err != nil {
		return err
	}
	return t.Exec(ctx, drop)
}

// checkFree refuses a name at which there is a file, or was a database whose log is left.
func checkFree(name string) error {
	if _, err := os.Lstat(name); err == nil {
		return errors.New("the file exists: name one that does not, or move it away")
	}
	for _, suffix := range sqliteSuffixes {
		if _, err := os.Lstat(name + suffix); err == nil {
			return fmt.Errorf("%s%s is left of another database: move it away", name, suffix)
		}
	}
	return nil
}

// open opens the file, which nobody sees before it is whole. Nobody uses what a killed copy leaves, so it needs no journal. Making an
// index sorts, and sorting takes several times the memory of the cache.
func (t *sqliteTarget) open(ctx context.Context) (err error) {
	t.sqliteSide, err = openSQLite(ctx, t.temporary, "locking_mode(EXCLUSIVE)", "journal_mode(OFF)", "synchronous(OFF)", "cache_size(-16384)")
	return err
}

// vacuum makes the copy with VACUUM INTO (sqlite.org/lang_vacuum.html). That takes along everything in the
// file, also what this program does not know, and leaves out what deleted rows have left.
//
// The copy must show the same moment as the source's snapshot, with which it is compared. So vacuum holds
// writes back while it takes the snapshot anew and VACUUM begins, which reads from one state, too.
func (t *sqliteTarget) vacuum(ctx context.Context, source *sqliteSource) error {
	from, err := openSQLite(ctx, source.file)
	if err != nil {
		return err
	}
	defer from.Close()
	held := source.writer != nil
	if !held {
		defer source.release()
		err := dberr.Classify(source.hold(ctx))
		if err != nil && !errors.Is(err, dberr.ErrUnwritable) { // who only reads cannot hold writes back; if somebody writes, compare says so
			return err
		}
	}
	done := make(chan error, 1)
	go func() { done <- from.Exec(ctx, "VACUUM INTO ?", t.temporary) }()
	var synced error
	for {
		select {
		case err := <-done:
			return errors.Join(err, synced, t.open(ctx))
		case <-time.After(20 * time.Millisecond):
			info, err := t.file.Stat()
			if err == nil && info.Size() > 0 && !held {
				source.release() // VACUUM has begun, so it has its state, which is that of the snapshot
			}
			synced = errors.Join(synced, t.file.Sync())
		}
	}
}

// write puts the rows on disk at once. If all were put there at the end, every commit of a database on the same disk would wait behind them
// for seconds.
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

// finish makes what was dropped, and takes out the marks that came from another file, which name worlds, as does what deleting leaves on
// the pages.
func (t *sqliteTarget) finish(ctx context.Context) error {
	err := t.Exec(ctx, t.restore+`; PRAGMA secure_delete = ON; DELETE FROM changes;
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

// commit puts the file on disk and then gives it its name, so that no crash leaves half of it under that name.
func (t *sqliteTarget) commit(context.Context) error {
	t.Close() // SQLite then has written everything, and has no descriptor of the file any more
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

// close removes the file, unless it was published.
func (t *sqliteTarget) close() {
	if t.sqliteSide != nil {
		t.Close()
	}
	if !t.published {
		t.removeBeside()
		os.Remove(t.temporary)
	}
	t.file.Close()
}

// removeBeside removes what SQLite keeps beside the file.
func (t *sqliteTarget) removeBeside() {
	for _, suffix := range sqliteSuffixes {
		os.Remove(t.temporary + suffix)
	}
}
