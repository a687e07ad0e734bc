package inspect

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"worldevents/models"
	"worldevents/models/internal/dberr"
	"worldevents/models/internal/postgres"
	"worldevents/models/internal/schema"
)

// inspectPostgres looks into the database on the first host of the URL that takes writes.
func inspectPostgres(ctx context.Context, o models.Options) Inspection {
	var found Inspection
	config, err := postgres.Parse(o.URL, inspectTimeout)
	if err != nil {
		found.add(Fault, "DATABASE_URL", "%v", err)
		return found
	}
	prepares := config.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // works behind any pooler
	config.ConnectTimeout = min(config.ConnectTimeout, inspectTimeout)
	if len(postgres.HostsOf(config)) > 1 && config.ValidateConnect == nil {
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		var hosts []string
		for _, host := range postgres.HostsOf(config) {
			hosts = append(hosts, postgres.AddressOf(host))
		}
		found.add(Fault, strings.Join(hosts, ","), "no connection: %s", causes(err))
		return found
	}
	defer conn.Close(context.Background())
	i := postgresInspection{&found, conn.PgConn().Conn().RemoteAddr().String(), conn}
	if i.server(ctx) {
		i.settings(ctx, o.MaxConns)
		if prepares {
			i.statements(ctx)
		}
		i.database(ctx)
	}
	return found
}

// causes has the root cause of each attempt to connect.
func causes(err error) string {
	var attempts interface{ Unwrap() []error }
	if !errors.As(err, &attempts) {
		return dberr.RootCause(err)
	}
	var texts []string
	for _, attempt := range attempts.Unwrap() {
		texts = append(texts, dberr.RootCause(attempt))
	}
	return strings.Join(slices.Compact(texts), "; ")
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

// server looks at the server and the way there. It reports whether the service can work with it.
func (i postgresInspection) server(ctx context.Context) bool {
	var version int
	var encoding string
	var readOnly bool
	if !i.read(ctx, `SELECT CAST(current_setting('server_version_num') AS integer), current_setting('server_encoding'),
		CAST(current_setting('default_transaction_read_only') AS boolean) OR pg_is_in_recovery()`, &version, &encoding, &readOnly) {
		return false
	}
	err := postgres.Supported(version, encoding)
	if err == nil && readOnly {
		err = errors.New("it takes no writes")
	}
	if err != nil {
		i.add(Fault, i.about, "%v", err)
		return false
	}
	i.add(Fine, i.about, "PostgreSQL %d.%d", version/10000, version%10000)
	remote, isTCP := i.conn.PgConn().Conn().RemoteAddr().(*net.TCPAddr)
	_, encrypted := i.conn.PgConn().Conn().(*tls.Conn)
	if isTCP && !encrypted && !remote.IP.IsLoopback() {
		i.add(Warning, i.about, "the connection is not encrypted: add sslmode=verify-full to DATABASE_URL")
	}
	return true
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
