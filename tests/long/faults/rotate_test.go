package faults

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"worldevents/tests/servicetest"
)

// rotation is a server whose database belongs to a role that nobody signs in as, and a file with the URL of a service.
type rotation struct {
	t      *testing.T
	server *servicetest.PostgresServer
	db     *servicetest.Database // the administrator's
	file   string
}

func newRotation(t *testing.T) *rotation {
	server := servicetest.NewPostgresServer(t)
	r := &rotation{t, server, server.Database(), filepath.Join(t.TempDir(), "url")}
	server.Exec("CREATE ROLE owner")
	for _, role := range []string{"first", "second", "third"} {
		server.Exec(fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD 'hunter2-of-%[1]s' IN ROLE owner", role))
		server.Exec("ALTER ROLE " + role + " SET role = owner")
	}
	server.Exec("CREATE ROLE stranger LOGIN PASSWORD 'hunter2-of-stranger'")
	server.Exec("ALTER DATABASE worldevents OWNER TO owner")
	askForPasswords(server)
	return r
}

// askForPasswords has the server soon ask everybody for a password but its administrator.
func askForPasswords(server *servicetest.PostgresServer) {
	server.Exec(`DO $$ BEGIN
		EXECUTE format('COPY (SELECT unnest(%L::text[])) TO %L',
			'{host all postgres 127.0.0.1/32 trust,host all all 127.0.0.1/32 scram-sha-256}', current_setting('hba_file'));
		PERFORM pg_reload_conf();
	END $$`)
}

// url is that of a role with its password.
func (r *rotation) url(role, password string) string {
	u := servicetest.Must(url.Parse(r.server.URL()))(r.t)
	u.User = url.UserPassword(role, password)
	return u.String()
}

func (r *rotation) write(url string) { servicetest.WriteSecret(r.t, r.file, url+"\n") }

func (r *rotation) use(role string) { r.write(r.url(role, "hunter2-of-"+role)) }

// replace has a service use a role in the place of another, until that has no connection.
func (r *rotation) replace(p *servicetest.Process, old, role string) {
	r.t.Helper()
	r.use(role)
	hangUp(r.t, p, rotated)
	servicetest.Eventually(r.t, old+" has no connection", func() bool { return r.connections(old) == 0 })
}

const rotated = `SIGHUP: DATABASE_URL_FILE was read again","changed":true`

// connections counts those of a role.
func (r *rotation) connections(role string) (n int) {
	r.db.Read("SELECT count(*) FROM pg_stat_activity WHERE usename = ?", []any{role}, &n)
	return n
}

func hangUp(t *testing.T, p *servicetest.Process, want string) {
	t.Helper()
	n := len(p.Log.String())
	p.Signal(syscall.SIGHUP)
	servicetest.Eventually(t, want, func() bool { return strings.Contains(p.Log.String()[n:], want) })
}

// The role of the service is replaced while requests write: none fails, and soon no connection is left of the old one. What
// the database refuses, or is not merely another user or password, changes nothing.
func TestRotatedRole(t *testing.T) {
	t.Parallel()
	r := newRotation(t)
	r.use("first")
	program := servicetest.NewProgram(t, "DATABASE_URL=", "DATABASE_URL_FILE="+r.file, "DB_TIMEOUT=5s", "LOG_FORMAT=json", "LOG_LEVEL=warn")
	p := program.ServeReady()
	transport := newTransport(10)
	defer transport.CloseIdleConnections()
	r.db.AwaitListeners(t, 1)

	machine := newYardstick(t, signIn(t, transport, p.URL, "clock"))
	var writes atomic.Int64
	writers := make([]*user, 10)
	for i := range writers {
		writers[i] = signIn(t, transport, p.URL, fmt.Sprint("writer", i))
	}
	stop := working(len(writers), func(i int) {
		_, res := writers[i].create("w", "x")
		switch {
		case res.Status == 200:
			writes.Add(1)
		case res.Status == 503 && machine.isBusy(): // connections took more than a second
		case !t.Failed():
			t.Errorf("a write during the rotation: %v", res)
		}
	})
	for _, roles := range [][2]string{{"first", "second"}, {"second", "third"}, {"third", "first"}} {
		r.replace(p, roles[0], roles[1])
		r.db.AwaitListeners(t, 1)
		before := writes.Load()
		servicetest.Eventually(t, "writes go on", func() bool { return t.Failed() || writes.Load() > before+10 })
		if r.connections(roles[1]) == 0 {
			t.Errorf("%s has no connection", roles[1])
		}
	}
	stop()
	machine.stop()
	r.server.Exec("DROP ROLE second")
	r.replace(p, "first", "third") // while nobody writes
	r.replace(p, "third", "first")

	alice := signIn(t, transport, p.URL, "alice")
	current := r.url("first", "hunter2-of-first")
	const refused, fixed = "the database refuses the new user or password", "only the user and the password may change"
	for _, test := range []struct{ text, want string }{
		{r.url("first", "hunter2-wrong"), refused},
		{r.url("second", "hunter2-of-second"), refused},
		{r.url("stranger", "hunter2-of-stranger"), "the role may not read and write all tables"},
		{strings.Replace(current, "/worldevents", "/postgres", 1), fixed},
		{strings.Replace(current, "127.0.0.1", "localhost", 1), fixed},
		{current + "?sslmode=disable", fixed},
		{"sqlite:worldevents.db", fixed},
		{"postgres://hunter2", fixed},
		{"hunter2", fixed},
	} {
		r.write(test.text)
		hangUp(t, p, "SIGHUP: DATABASE_URL_FILE stays as it is")
		servicetest.Contains(t, p.Log.String(), test.want)
		r.server.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'first'")
		alice.writesAgain(t) // by the old ones
	}
	r.write(strings.Replace(current, "first:hunter2-of-first@", "", 1) + "?password=hunter2-of-third&user=third")
	hangUp(t, p, rotated)
	servicetest.Lacks(t, p.Log.String(), "hunter2")
}

// While the database is away, from the start or later, new credentials are taken untried.
func TestRotatedRoleWithoutDatabase(t *testing.T) {
	t.Parallel()
	r := newRotation(t)
	r.use("first")
	program := servicetest.NewProgram(t, "DATABASE_URL=", "DATABASE_URL_FILE="+r.file, "DB_TIMEOUT=1s", "LOG_FORMAT=json")
	program.MustRun("migrate")
	r.server.Kill()
	p := program.Serve()
	for range 20 {
		p.Signal(syscall.SIGHUP)
	}
	r.use("second")
	p.Signal(syscall.SIGHUP)
	servicetest.Eventually(t, "the new ones are taken", func() bool { // maybe by an earlier signal
		return strings.Contains(p.Log.String(), "the new user and password could not be tried")
	})
	r.server.Start()
	p.Readiness(200, servicetest.Soon)
	if n := r.connections("first"); n != 0 || r.connections("second") == 0 {
		t.Errorf("%d connections of the old role", n)
	}
	servicetest.Lacks(t, p.Log.String(), "hunter2")
}
