package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"worldevents/models/internal/dberr"
)

var ErrStatements = errors.New("a pooler (PgBouncer in transaction mode) gives prepared statements to others: add default_query_exec_mode=exec to DATABASE_URL")

// CheckStatements returns ErrStatements if a statement that one has prepared may be gone the next time: behind a pooler in transaction mode
// other may have the connection to the server. It prepares nothing else.
func CheckStatements(ctx context.Context, one, other *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // a pool of one connection would have them wait for each other
	defer cancel()
	const name = "worldevents_check"
	_, err := one.PgConn().Prepare(ctx, name, "SELECT 1", nil)
	if err == nil {
		if _, err = other.Exec(ctx, "BEGIN"); err == nil {
			err = one.PgConn().ExecPrepared(ctx, name, nil, nil, nil).Read().Err
			other.Exec(ctx, "ROLLBACK")
		}
	}
	if dberr.IsCode(err, "26000", "42P05") { // there is none, or already one of an earlier check
		return ErrStatements
	}
	if err == nil {
		one.PgConn().Deallocate(ctx, name)
	}
	return nil
}
