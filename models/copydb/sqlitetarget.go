package copydb

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"worldevents/models"
)

// sqliteTarget is a SQLite file that is being made: as NAME.copying in the same folder, and for its owner alone. It gets its name once it
// is on disk.
type sqliteTarget struct {
	*sqliteSide     // nil before it is open
	name, temporary string
	file            *os.File // temporary
	published       bool
	restore         string // statements that make the dropped indexes and triggers
}

// sqliteSuffixes are those of the files that SQLite keeps beside a database. SQLite would take one that is left
// there for the new database's.
var sqliteSuffixes = []string{"-wal", "-shm", "-journal"}

// createFile makes a file that is to get name. It refuses a name that is taken, and one into which another copy is running or was killed.
func createFile(name string) (*sqliteTarget, error) {
	name, err := filepath.Abs(name)
	if err == nil {
		err = checkFree(name)
	}
	if err != nil {
		return nil, err
	}
	t := &sqliteTarget{name: name, temporary: name + ".copying"}
	t.file, err = os.OpenFile(t.temporary, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) // the operator names the file
	if errors.Is(err, os.ErrExist) {
		err = fmt.Errorf("%s is there: another copy into it is running, or one was killed: then remove it", t.temporary)
	}
	if err != nil {
		return nil, err
	}
	t.removeBeside() // what a killed copy has left
	return t, nil
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

// prepare makes the schema, but without indexes, which are made quicker at the end, and triggers, which would leave marks.
func (t *sqliteTarget) prepare(ctx context.Context) error {
	err := makeSchema(ctx, models.Options{URL: "sqlite:" + t.temporary, Timeout: 2 * copyBusy})
	if err != nil {
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

// syncEvery is after how many rows a new file is put on disk. If all of it were put there at the end, every commit of a database on the
// same disk would wait behind it for seconds.
const syncEvery = 100_000

func (t *sqliteTarget) write(ctx context.Context, table table, rows iter.Seq2[[]any, error]) error {
	if err := t.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	insert, err := t.PrepareContext(ctx, fmt.Sprintf("INSERT INTO %s (%s) VALUES (?%s)", table.Name, strings.Join(table.names, ", "), strings.Repeat(", ?", len(table.names)-1)))
	if err != nil {
		return err
	}
	defer insert.Close()
	n := 0
	for row, err := range rows {
		if err != nil {
			return err
		}
		if _, err := insert.Exec(row...); err != nil {
			return fmt.Errorf("%w, in the row with %s", err, table.identify(row))
		}
		if n++; n%syncEvery == 0 {
			if err := t.file.Sync(); err != nil {
				return err
			}
		}
	}
	return t.Exec(ctx, "COMMIT")
}

func (t *sqliteTarget) finish(ctx context.Context) error {
	if err := t.Exec(ctx, t.restore); err != nil {
		return err
	}
	return t.checkForeignKeys(ctx)
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
