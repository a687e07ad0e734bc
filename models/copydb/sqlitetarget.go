package copydb

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"worldevents/models"
)

// sqliteTarget is a file that is being made under another name.
type sqliteTarget struct {
	*sqliteSide
	file    *newFile
	restore string // statements that make the dropped indexes and triggers
}

// whileMade are pragmas of a file that nobody sees before it is whole. A copy that is killed begins anew, so the file needs no journal.
var whileMade = []string{"locking_mode(EXCLUSIVE)", "journal_mode(OFF)", "synchronous(OFF)"}

// openSQLiteTarget makes a file for rows, or one that is to become a copy of another SQLite file.
func openSQLiteTarget(file string, source *sqliteSource) (copyTarget, error) {
	if source != nil && sameFile(file, source.file) {
		return nil, errSameDatabase
	}
	f, err := createNewFile(file)
	if err != nil {
		return nil, err
	}
	if source != nil {
		source.lenient = true
		return &sqliteFileCopy{sqliteTarget{file: f}, source}, nil
	}
	return &sqliteTarget{file: f}, nil
}

func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// prepare makes the schema without indexes and triggers.
func (t *sqliteTarget) prepare(ctx context.Context) error {
	err := makeSchema(ctx, models.Options{URL: "sqlite:" + t.file.temporary, Timeout: 2 * copyBusy})
	if err != nil {
		return err
	}
	t.sqliteSide, err = openSQLiteSide(ctx, t.file.temporary, append(whileMade, "foreign_keys(0)", "cache_size(-32768)")...)
	if err != nil {
		return err
	}
	const dropped = "FROM sqlite_schema WHERE type IN ('index', 'trigger') AND sql IS NOT NULL"
	if err := t.Value(ctx, &t.restore, "SELECT group_concat(sql, ';') "+dropped); err != nil {
		return err
	}
	var drop string
	if err := t.Value(ctx, &drop, "SELECT group_concat('DROP ' || type || ' ' || name, ';') "+dropped); err != nil {
		return err
	}
	return t.Exec(ctx, drop)
}

func (t *sqliteTarget) fill(ctx context.Context, table string, columns []copyColumn, rows func(each func(copyRow) error) error) error {
	if err := t.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	insert, err := t.Conn.PrepareContext(ctx, fmt.Sprintf("INSERT INTO %s (%s) VALUES (?%s)", table, columnList(columns), strings.Repeat(", ?", len(columns)-1)))
	if err != nil {
		return err
	}
	defer insert.Close()
	values := make([]any, len(columns))
	err = rows(func(row copyRow) error {
		var failed error
		for i, value := range row {
			decoded, err := columns[i].kind.decode(value)
			if err != nil {
				failed = fmt.Errorf("%s %w", columns[i].name, err)
			}
			values[i] = decoded
		}
		if failed == nil {
			_, failed = insert.Exec(values...)
		}
		if failed != nil {
			return fmt.Errorf("%w, in the row with %s", failed, identify(columns, values))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return t.Exec(ctx, "COMMIT")
}

func (t *sqliteTarget) finish(ctx context.Context) error {
	// Making an index sorts, and sorting takes several times the memory of the cache.
	if err := t.Exec(ctx, "PRAGMA cache_size = -16384; "+t.restore); err != nil {
		return err
	}
	return t.checkForeignKeys(ctx)
}

func (t *sqliteTarget) commit(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	t.closeSide() // SQLite then has written everything, and has no descriptor of the file any more
	return t.file.publish()
}

func (t *sqliteTarget) closeSide() {
	if t.sqliteSide != nil {
		t.sqliteSide.Close()
		t.sqliteSide = nil
	}
}

func (t *sqliteTarget) close() {
	t.closeSide()
	t.file.discard()
}

// sqliteFileCopy is a SQLite file that becomes a copy of another.
type sqliteFileCopy struct {
	sqliteTarget
	source *sqliteSource
}

// prepare does nothing, because the schema is in the pages that are copied.
func (t *sqliteFileCopy) prepare(context.Context) error { return nil }

// vacuum makes the copy with VACUUM INTO (sqlite.org/lang_vacuum.html). That takes along everything in the
// file, also what this program does not know, and leaves out what deleted rows have left. It calls report with
// the part of the copy that is done.
//
// The copy must show the same moment as the source's snapshot, with which it is compared. So vacuum holds
// writes back while it takes the snapshot anew and VACUUM begins, which reads from one state, too.
func (t *sqliteFileCopy) vacuum(ctx context.Context, report func(part float64)) error {
	from, err := openSQLiteSide(ctx, t.source.file)
	if err != nil {
		return err
	}
	defer from.Close()
	var size float64
	err = from.Value(ctx, &size, "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size")
	if err != nil {
		return err
	}
	unlock, err := t.source.holdWrites(ctx)
	if isReadOnly(err) { // this process cannot hold writes back; if somebody writes, compare says so
		unlock, err = func() {}, nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	if err := t.source.renew(ctx); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- from.Exec(ctx, "VACUUM INTO ?", t.file.temporary) }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			if info, err := os.Stat(t.file.temporary); err == nil && info.Size() > 0 {
				unlock() // the copy has begun, so VACUUM has its state, which is that of the snapshot
				report(min(float64(info.Size())/size, 1))
			}
		}
	}
}

// finish takes out the marks, which name worlds, as does what deleting leaves on the pages.
func (t *sqliteFileCopy) finish(ctx context.Context) (err error) {
	if t.sqliteSide, err = openSQLiteSide(ctx, t.file.temporary, whileMade...); err != nil {
		return err
	}
	t.lenient = true
	err = t.Exec(ctx, `PRAGMA secure_delete = ON; DELETE FROM changes;
		UPDATE incarnation SET (horizon, next) = (SELECT seq, seq FROM sqlite_sequence WHERE name = 'changes') WHERE EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'changes')`)
	if err != nil {
		return err
	}
	return t.checkForeignKeys(ctx)
}
