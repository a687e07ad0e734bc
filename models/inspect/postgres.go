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

// postgres looks into the database on the first host of the URL that takes writes.
func (i *inspector) postgres(ctx context.Context, o models.Options) {
	config, err := postgres.Parse(o.URL, inspectTimeout)
	if err != nil {
		i.add(Fault, "%v", err)
		return
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
		i.about = strings.Join(hosts, ",")
		i.add(Fault, "no connection: %s", causes(err))
		return
	}
	defer conn.Close(context.Background())
	i.about = conn.PgConn().Conn().RemoteAddr().String()
	i.value = func(ctx context.Context, into any, query string, _ ...any) error {
		return readRow(ctx, conn, query, into)
	}
	if !i.server(ctx, conn, o.MaxConns) {
		return
	}
	if prepares {
		i.statements(ctx, conn)
	}
	if i.tables(ctx, schema.Postgres, `SELECT coalesce((SELECT CASE WHEN indisvalid THEN '' ELSE 'the index %[1]s is not valid: REINDEX INDEX CONCURRENTLY %[1]s' END
		FROM pg_index WHERE indexrelid = to_regclass('%[1]s')), 'the index %[1]s is missing')`) {
		i.references(ctx)
		i.count(ctx)
	}
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

// readRow reads the one row of a query in a read-only transaction, without statement_timeout, because counting may take minutes.
func readRow(ctx context.Context, conn *pgx.Conn, query string, dest ...any) error {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = 0"); err != nil {
		return err
	}
	return tx.QueryRow(ctx, query).Scan(dest...)
}

// server looks at the server: writes, room for connections, waits for the disk, clock. It reports whether the service can work with it.
func (i *inspector) server(ctx context.Context, conn *pgx.Conn, pool int) bool {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	var version, places int
	var encoding string
	var readOnly bool
	var off []string
	var clock time.Time
	err := readRow(ctx, conn, `
		SELECT CAST(current_setting('server_version_num') AS integer), current_setting('server_encoding'),
		CAST(current_setting('default_transaction_read_only') AS boolean) OR pg_is_in_recovery(),
		least(
			CAST(current_setting('max_connections') AS integer) - CAST(current_setting('superuser_reserved_connections') AS integer)
				- CAST(coalesce(current_setting('reserved_connections', true), '0') AS integer),
			(SELECT CASE WHEN datconnlimit >= 0 THEN datconnlimit END FROM pg_database WHERE datname = current_database()),
			(SELECT CASE WHEN rolconnlimit >= 0 THEN rolconnlimit END FROM pg_roles WHERE rolname = current_user)),
		ARRAY(SELECT CAST(name AS text) FROM pg_settings WHERE name IN ('synchronous_commit', 'fsync') AND setting = 'off'), clock_timestamp()`,
		&version, &encoding, &readOnly, &places, &off, &clock)
	if err == nil {
		err = postgres.Supported(version, encoding)
	}
	if err == nil && readOnly {
		err = errors.New("it takes no writes")
	}
	if i.failed(err) {
		return false
	}
	i.add(Fine, "PostgreSQL %d.%d", version/10000, version%10000)
	remote, isTCP := conn.PgConn().Conn().RemoteAddr().(*net.TCPAddr)
	_, encrypted := conn.PgConn().Conn().(*tls.Conn)
	if isTCP && !encrypted && !remote.IP.IsLoopback() {
		i.add(Warning, "the connection is not encrypted: add sslmode=verify-full to DATABASE_URL")
	}
	// Besides its pool an instance has a connection that listens, and one for migrating.
	switch need := pool + 2; {
	case need > places:
		i.add(Fault, "DB_MAX_CONNS=%d: the server has %d connections for this role, and an instance may need %d", pool, places, need)
	case 2*need > places:
		i.add(Warning, "DB_MAX_CONNS=%d: the server has %d connections for this role, which is enough for one instance and not for two", pool, places)
	default:
		i.add(Fine, "DB_MAX_CONNS=%d: the server has %d connections for this role, enough for %d instances", pool, places, places/need)
	}
	for _, setting := range off {
		i.add(Warning, "%s=off: a crash may lose writes that were acknowledged", setting)
	}
	if apart := time.Since(clock).Abs(); apart > models.ClockSkew {
		i.add(Warning, "its clock and that of this machine are %v apart", apart.Round(time.Second))
	}
	return true
}

// statements checks whether prepared statements last, if there is another connection for that.
func (i *inspector) statements(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	other, err := pgx.ConnectConfig(ctx, conn.Config())
	if err != nil {
		return
	}
	defer other.Close(context.Background())
	if err := postgres.CheckStatements(ctx, other, conn); err != nil {
		i.add(Fault, "%v", err)
	}
}

// orphans select rows that refer to nothing. They come from foreign keys that were switched off, as a restore may do.
var orphans = map[string]string{
	"sessions of no user":     "SELECT 1 FROM sessions s WHERE NOT EXISTS (SELECT 1 FROM users WHERE id = s.user_id)",
	"events of no user":       "SELECT 1 FROM events e WHERE creator_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM users WHERE id = e.creator_id)",
	"RSVPs for no event":      "SELECT 1 FROM rsvps r WHERE NOT EXISTS (SELECT 1 FROM events WHERE number = r.event_number)",
	"RSVPs of no user's name": "SELECT 1 FROM rsvps r WHERE NOT EXISTS (SELECT 1 FROM users WHERE number = r.user_number AND username = r.username)",
}

// references looks for missing foreign keys, orphans, and, if the cluster has checksums, pages that the server found with a wrong one.
func (i *inspector) references(ctx context.Context) {
	i.isFine(ctx, `SELECT coalesce((SELECT CAST(checksum_failures AS text) || ' pages had a wrong checksum: the disk is failing'
		FROM pg_stat_database WHERE datname = current_database() AND checksum_failures > 0), '')`)
	fine := i.isFine(ctx, `SELECT CASE WHEN count(*) < 4 THEN CAST(count(*) AS text) || ' of 4 foreign keys are there' ELSE '' END FROM pg_constraint
		WHERE contype = 'f' AND convalidated AND conrelid IN (to_regclass('sessions'), to_regclass('events'), to_regclass('rsvps'))`)
	for what, query := range orphans {
		fine = i.isFine(ctx, "SELECT CASE WHEN EXISTS ("+query+") THEN $$there are "+what+"$$ ELSE '' END") && fine
	}
	if fine {
		i.add(Fine, "foreign keys")
	}
}
