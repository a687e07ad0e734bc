package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"worldevents/tests/servicetest"
)

// build is a program to measure.
type build struct{ name, path string }

// bench is one run.
type bench struct {
	testing.TB
	only     *regexp.Regexp
	round    time.Duration
	rounds   int
	scale    int // of what is large
	dir      string
	builds   []build // the service, its control, and the others
	postgres *url.URL
	admin    *pgx.Conn
	started  map[string][]*server
	ends     []func() // of what was started, in that order
	ending   sync.Mutex
}

// open starts PostgreSQL, builds the service if need be, and has it make the tables of the template.
func (b *bench) open(path string, others []build) {
	b.started, b.dir = map[string][]*server{driver: {}}, must(os.MkdirTemp("", "worldevents-bench"))
	b.Cleanup(func() { os.RemoveAll(b.dir) })
	os.Setenv("TMPDIR", b.dir) // of what servicetest makes
	// Durable, as installed. Autovacuum and timed checkpoints would hit rounds by chance.
	u, stop, err := servicetest.StartPostgres("max_connections=400", "shared_buffers=1GB", "autovacuum=off", "checkpoint_timeout=1h", "max_wal_size=16GB")
	check(err)
	b.Cleanup(stop)
	b.postgres = u
	servicetest.Eventually(b, "PostgreSQL responds", func() bool {
		b.admin, err = pgx.Connect(context.Background(), u.String())
		return err == nil
	})
	if path != "" {
		os.Setenv("TEST_PROGRAM", must(filepath.Abs(path)))
	}
	path = servicetest.Binary(b)
	b.builds = append([]build{{service, path}, {control, path}}, others...)
	var version string
	check(b.admin.QueryRow(context.Background(), "SHOW server_version").Scan(&version))
	fmt.Printf("%s: %d cores, %s, PostgreSQL %s with fsync=on and synchronous_commit=on, pools of %d.\n",
		time.Now().Format(time.DateOnly), runtime.NumCPU(), runtime.Version(), version, poolSize)
	must(b.admin.Exec(context.Background(), "CREATE DATABASE template"))
	b.start(b.builds[0], b.urlOf("template")).Signal(os.Kill)
	b.seed(b.urlOf("template"), seeds())
}

// database makes a database as the template is, and returns its URL.
func (b *bench) database() string {
	name := fmt.Sprint("copy_", len(b.ends)) // another one each time, since a server follows
	must(b.admin.Exec(context.Background(), "CREATE DATABASE "+name+" STRATEGY file_copy TEMPLATE template"))
	return b.urlOf(name)
}

func (b *bench) urlOf(database string) string { return b.postgres.JoinPath("..", database).String() }

// seed runs statements that need no check of foreign keys, as if they had run long ago.
func (b *bench) seed(url string, statements []string) {
	db := must(pgx.Connect(context.Background(), url))
	defer db.Close(context.Background())
	for _, statement := range slices.Concat([]string{"SET session_replication_role = replica"}, statements, []string{"VACUUM ANALYZE", "CHECKPOINT"}) {
		must(db.Exec(context.Background(), statement))
	}
}

// cpu is the processor time of PostgreSQL's processes that run now.
func (b *bench) cpu() (total time.Duration) {
	rows := must(b.admin.Query(context.Background(), "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()"))
	for _, pid := range must(pgx.CollectRows(rows, pgx.RowTo[int])) {
		total += processorTime(pid)
	}
	return total
}
