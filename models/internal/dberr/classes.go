package dberr

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// ErrBusy means that no pooled connection came free in time, that somebody kept a lock, or that the transaction collided with others at
// each attempt. Nothing of it has happened.
var ErrBusy = errors.New("database busy")

// ErrTimeout means that the work did not end within the store's timeout. A write may or may not have happened.
var ErrTimeout = errors.New("database timeout")

// ErrUnavailable means that the database is away, starting, stopping or read-only. A write may or may not have happened.
var ErrUnavailable = errors.New("database unavailable")

// ErrUnreachable is the ErrUnavailable of a database that refuses connections or the user, does not respond, or has an unknown name.
// Nothing was sent, so nothing of the call has happened.
var ErrUnreachable = fmt.Errorf("%w: no connection", ErrUnavailable)

// ErrUnwritable is the ErrUnavailable of a SQLite file that was removed or replaced, is damaged, or is on a disk that is full or fails. The
// store notices by itself when the file takes writes again.
var ErrUnwritable = fmt.Errorf("%w: its file takes no writes", ErrUnavailable)

// errNoRoom is the ErrUnwritable of a file whose index of the log (-shm) SQLite cannot make or enlarge
// (sqlite.org/rescode.html#ioerr_shmsize). The code does not say why.
var errNoRoom = fmt.Errorf("%w: the disk may be full", ErrUnwritable)

var errNoSQLite error = worded{"this is no SQLite database, or its beginning is damaged", ErrUnwritable}

// worded is an error whose text does not show the error that it wraps.
type worded struct {
	words string
	error
}

func (w worded) Error() string { return w.words }

func (w worded) Unwrap() error { return w.error }

// ErrCannotWrite means that the server lacks what it needs to write, such as room on its disk.
var ErrCannotWrite = fmt.Errorf("%w: it cannot write", ErrUnavailable)

// ErrNotWritten is the ErrCannotWrite of a statement in a transaction, which was rolled back. Nothing of the call has happened.
var ErrNotWritten = fmt.Errorf("%w, and has written nothing", ErrCannotWrite)

// errReadOnly is the ErrUnavailable of a server that responds, and takes no writes.
var errReadOnly = fmt.Errorf("%w: it is read-only", ErrUnavailable)

// Statements provoke some of these on purpose, and others ask for another attempt. They stay inside models and the packages below it.
var (
	ErrFull       = fmt.Errorf("%w: too many connections", ErrBusy)
	ErrForeignKey = errors.New("foreign key violated")
	ErrDuplicate  = errors.New("unique key violated")
	ErrSerialize  = errors.New("transaction must be repeated")
	ErrLocked     = fmt.Errorf("%w: row is locked", ErrBusy)
)

// Classify puts the class of a driver's error in front of it.
func Classify(err error) error {
	if err == nil {
		return nil
	}
	if class := ClassOf(err); class != nil {
		return fmt.Errorf("%w: %w", class, err)
	}
	return err
}

// InTransaction is Classify for the error of a statement within a transaction, which is not committed then.
func InTransaction(err error) error {
	if class := ClassOf(err); class == ErrCannotWrite {
		return fmt.Errorf("%w: %w", ErrNotWritten, err)
	}
	return Classify(err)
}

// ClassOf returns the class of a driver's error, or nil if it has none, or has it in front already.
func ClassOf(err error) error {
	var pg *pgconn.PgError
	var lite *sqlite.Error
	var connect *pgconn.ConnectError
	var network net.Error
	var file *fs.PathError // which looks like a net.Error
	switch {
	case errors.Is(err, ErrBusy), errors.Is(err, ErrUnwritable), errors.Is(err, ErrUnreachable), errors.Is(err, ErrNotWritten):
		return nil // classified already
	case errors.As(err, &file):
		return nil
	case errors.As(err, &pg):
		return ClassOfPostgres(pg.Code)
	case errors.As(err, &lite):
		return classOfSQLite(lite.Code())
	case errors.Is(err, context.DeadlineExceeded):
		return ErrTimeout
	case errors.As(err, &connect), errors.As(err, &network), errors.Is(err, driver.ErrBadConn),
		errors.Is(err, sql.ErrConnDone), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), pgconn.SafeToRetry(err):
		return ErrUnavailable
	}
	return nil
}

// ClassOfPostgres returns the class of a SQLSTATE code (PostgreSQL appendix A).
func ClassOfPostgres(code string) error {
	switch code {
	case "23503":
		return ErrForeignKey
	case "23505":
		return ErrDuplicate
	case "40001", "40P01":
		return ErrSerialize
	case "55P03": // lock_timeout has passed
		return ErrLocked
	case "57014": // canceled, by statement_timeout or by our own deadline
		return ErrTimeout
	case "53300": // too many connections, of the server, the database or the role
		return ErrFull
	case "53000", "53100", "53200", // resources in general, disk full, out of memory
		"58000", "58030": // system error, input or output
		return ErrCannotWrite
	case "25006": // a standby, or a primary just demoted
		return errReadOnly
	case "28000", "28P01", "3D000", // refused: the role, its password, or no such database
		"57P01", "57P02", "57P03", "57P05", "25P03": // stopping, crashed, starting, idle too long, outside a transaction or in one
		return ErrUnavailable
	}
	if len(code) == 5 && code[:2] == "08" { // connection exception
		return ErrUnavailable
	}
	return nil
}

// IsLost reports whether a statement lost its connection or its server, so that nobody knows what became of it.
func IsLost(err error) bool {
	return errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrUnreachable) && !errors.Is(err, ErrUnwritable) &&
		!errors.Is(err, ErrCannotWrite) && !errors.Is(err, errReadOnly)
}

// IsRefusal reports whether the server refused the credentials, or has no such database: at the start a mistake in the settings.
func IsRefusal(err error) bool {
	return IsCode(err, "28000", "28P01", "3D000")
}

// IsCode reports whether a PostgreSQL server refused a statement with one of these SQLSTATE codes.
func IsCode(err error, codes ...string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && slices.Contains(codes, pg.Code)
}

// classOfSQLite returns the class of an extended result code (sqlite.org/rescode.html). The low byte is the primary code.
func classOfSQLite(code int) error {
	switch code {
	case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY, sqlite3.SQLITE_CONSTRAINT_TRIGGER:
		return ErrForeignKey
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY:
		return ErrDuplicate
	case sqlite3.SQLITE_IOERR_SHMSIZE:
		return errNoRoom
	case sqlite3.SQLITE_NOTADB:
		return errNoSQLite
	}
	switch code & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return ErrBusy
	case sqlite3.SQLITE_INTERRUPT:
		return ErrTimeout
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY,
		sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return ErrUnwritable
	}
	return nil
}
