package inspect

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"worldevents/models"
	"worldevents/models/internal/dberr"
	"worldevents/models/internal/postgres"
	"worldevents/models/internal/schema"
)

// inspectPostgres looks at every host of the URL, and then into the database on the one that takes writes. A
// host that does not respond is a Fault even if another does: it would be missed only when the other one fails.
func inspectPostgres(ctx context.Context, o models.Options) Inspection {
	var found Inspection
	config, err := postgres.Parse(o.URL, inspectTimeout)
	if err != nil {
		found.add(Fault, "DATABASE_URL", "%v", err)
		return found
	}
	var writable *pgx.Conn
	about := ""
	for _, host := range postgres.HostsOf(config) {
		host.ValidateConnect = nil // so that a standby is looked at, too
		host.ConnectTimeout = min(host.ConnectTimeout, inspectTimeout)
		host.DefaultQueryExecMode = pgx.QueryExecModeExec // works behind any pooler
		conn := inspectHost(ctx, &found, host)
		if conn == nil {
			continue
		}
		defer conn.Close(context.Background())
		if writable == nil {
			writable, about = conn, postgres.AddressOf(host)
		}
	}
	if writable == nil {
		if !slices.ContainsFunc(found.Findings, func(f Finding) bool { return f.Level == Fault && !strings.HasPrefix(f.Text, noConnection) }) {
			found.add(Fault, "DATABASE_URL", "no host takes writes")
		}
		return found
	}
	i := postgresInspection{&found, about, writable}
	i.settings(ctx, o.MaxConns)
	if postgres.Prepares(config) {
		i.statements(ctx)
	}
	i.database(ctx)
	return found
}

const noConnection = "no connection: "

// inspectHost looks at a host. If the host takes writes, it returns the connection.
func inspectHost(ctx context.Context, found *Inspection, host *pgx.ConnConfig) *pgx.Conn {
	about := postgres.AddressOf(host)
	wait, cancel := context.WithTimeout(ctx, 2*inspectTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(wait, host)
	if err != nil {
		found.add(Fault, about, noConnection+"%s", dberr.RootCause(err))
		return nil
	}
	var version int
	var encoding string
	var readOnly, standby bool
	err = conn.QueryRow(wait, `SELECT CAST(current_setting('server_version_num') AS integer), current_setting('server_encoding'),
		CAST(current_setting('transaction_read_only') AS boolean), pg_is_in_recovery()`).Scan(&version, &encoding, &readOnly, &standby)
	if err == nil {
		err = postgres.Supported(version, encoding)
	}
	if err != nil {
		found.add(Fault, about, "%s", dberr.RootCause(err))
		conn.Close(wait)
		return nil
	}
	name := fmt.Sprintf("PostgreSQL %d.%d", version/10000, version%10000)
	switch {
	case standby:
		found.add(Fine, about, "%s, a standby", name)
	case readOnly:
		found.add(Warning, about, "%s, which takes no writes", name)
	default:
		found.add(Fine, about, "%s", name)
	}
	_, encrypted := conn.PgConn().Conn().(*tls.Conn)
	if ip := net.ParseIP(host.Host); !encrypted && host.Host != "localhost" && host.Host[:1] != "/" && (ip == nil || !ip.IsLoopback()) {
		found.add(Warning, about, "the connection is not encrypted: add sslmode=verify-full to DATABASE_URL")
	}
	if standby || readOnly {
		conn.Close(wait)
		return nil
	}
	return conn
}

// postgresInspection looks at the server that takes writes.
type postgresInspection struct {
	*Inspection
	about string
	conn  *pgx.Conn
}

// read reads the one row of a query, and reports whether that succeeded. If not, it adds a Fault.
func (i postgresInspection) read(ctx context.Context, query string, dest ...any) bool {
	err := i.tryRead(ctx, query, dest...)
	if err != nil {
		i.add(Fault, i.about, "%s", dberr.RootCause(err))
	}
	return err == nil
}

// tryRead reads the one row of a query in a transaction that cannot write. It lifts statement_timeout, because
// counting a large table may take minutes.
func (i postgresInspection) tryRead(ctx context.Context, query string, dest ...any) error {
	tx, err := i.conn.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = 0"); err != nil {
		return err
	}
	return tx.QueryRow(ctx, query).Scan(dest...)
}

// value is schema.Value.
func (i postgresInspection) value(ctx context.Context, into any, query string, _ ...any) error {
	return i.tryRead(ctx, query, into)
}

// settings looks at what the server is set to: room for connections, whether a commit waits for the disk, and
// its clock.
func (i postgresInspection) settings(ctx context.Context, pool int) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	var places int
	var syncCommit, fsync string
	var clock time.Time
	if !i.read(ctx, `
		SELECT least(
			CAST(current_setting('max_connections') AS integer) - CAST(current_setting('superuser_reserved_connections') AS integer)
				- CAST(coalesce(current_setting('reserved_connections', true), '0') AS integer),
			(SELECT CASE WHEN datconnlimit >= 0 THEN datconnlimit END FROM pg_database WHERE datname = current_database()),
			(SELECT CASE WHEN rolconnlimit >= 0 THEN rolconnlimit END FROM pg_roles WHERE rolname = current_user)),
		current_setting('synchronous_commit'), current_setting('fsync'), clock_timestamp()`, &places, &syncCommit, &fsync, &clock) {
		return
	}
	// Besides its pool an instance has a connection that listens, and one for migrating.
	switch need := pool + 2; {
	case need > places:
		i.add(Fault, i.about, "DB_MAX_CONNS=%d: the server has %d connections for this role, and an instance may need %d", pool, places, need)
	case 2*need > places:
		i.add(Warning, i.about, "DB_MAX_CONNS=%d: the server has %d connections for this role, which is enough for one instance and not for two", pool, places)
	default:
		i.add(Fine, i.about, "DB_MAX_CONNS=%d: the server has %d connections for this role, enough for %d instances", pool, places, places/need)
	}
	const unsafe = "%s=off: a crash may lose writes that were acknowledged"
	if syncCommit == "off" {
		i.add(Warning, i.about, unsafe, "synchronous_commit")
	}
	if fsync == "off" {
		i.add(Warning, i.about, unsafe, "fsync")
	}
	if apart := time.Since(clock).Abs(); apart > models.ClockSkew {
		i.add(Warning, i.about, "its clock and that of this machine are %v apart", apart.Round(time.Second))
	}
}

// statements looks whether prepared statements last. Where another connection is not to be had, nothing is said.
func (i postgresInspection) statements(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	other, err := pgx.ConnectConfig(ctx, i.conn.Config())
	if err != nil {
		return
	}
	defer other.Close(context.Background())
	if err := postgres.CheckStatements(ctx, other, i.conn); err != nil {
		i.add(Fault, i.about, "%v", err)
	}
}

// database looks at tables and indexes.
func (i postgresInspection) database(ctx context.Context) {
	if !i.judge(ctx, i.about, schema.Postgres, i.value) {
		return
	}
	for _, index := range inspectedIndexes {
		var valid bool
		err := i.tryRead(ctx, "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('"+index+"')", &valid)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			i.add(Fault, i.about, "the index %s is missing", index)
		case err != nil:
			i.add(Fault, i.about, "%s", dberr.RootCause(err))
		case !valid:
			i.add(Fault, i.about, "the index %s is not valid: REINDEX INDEX CONCURRENTLY %s", index, index)
		}
	}
	i.integrity(ctx)
}

// integrity looks for missing foreign keys, for rows that refer to nothing, and for pages with a wrong
// checksum. The server counts the latter whenever it reads a page, if the cluster has checksums.
func (i postgresInspection) integrity(ctx context.Context) {
	var keys, failures int
	if !i.read(ctx, `
		SELECT (SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND convalidated
				AND conrelid IN (to_regclass('sessions'), to_regclass('events'), to_regclass('rsvps'))),
			(SELECT coalesce(checksum_failures, 0) FROM pg_stat_database WHERE datname = current_database())`, &keys, &failures) {
		return
	}
	if keys < 4 {
		i.add(Fault, i.about, "%d of 4 foreign keys are there", keys)
	}
	if failures > 0 {
		i.add(Fault, i.about, "%d pages had a wrong checksum: the disk is failing", failures)
	}
	broken := false
	for what, query := range orphans {
		var exist bool
		if !i.read(ctx, "SELECT EXISTS ("+query+")", &exist) {
			return
		}
		if exist {
			i.add(Fault, i.about, "there are %s", what)
			broken = true
		}
	}
	if !broken && keys >= 4 {
		i.add(Fine, i.about, "foreign keys")
	}
	i.count(ctx, i.about, i.value)
}
