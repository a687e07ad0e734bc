package operating

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// runbooks returns the scripts below a heading of OPERATING.md, as they are printed.
func runbooks(t *testing.T, heading string) (scripts []string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(servicetest.Root(t), "OPERATING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n### "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n##")
	for _, script := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1) {
		scripts = append(scripts, script[1])
	}
	if len(scripts) == 0 {
		t.Fatalf("no runbook %q", heading)
	}
	return scripts
}

// machine is what the runbooks want: the program in the PATH, its folder with .env, and systemd, which here is the test.
type machine struct {
	t       *testing.T
	p       *servicetest.Program
	service *servicetest.Process
	env     []string
}

func newMachine(t *testing.T, server *servicetest.PostgresServer) *machine {
	t.Helper()
	bin := t.TempDir()
	if err := os.Symlink(servicetest.Binary(t), filepath.Join(bin, "worldevents")); err != nil {
		t.Fatal(err)
	}
	systemctl := "#!/bin/sh\necho \"$*\" >systemctl.new && mv systemctl.new systemctl.request\nwhile [ -e systemctl.request ]; do sleep 0.02; done\n"
	if err := os.WriteFile(filepath.Join(bin, "systemctl"), []byte(systemctl), 0o700); err != nil {
		t.Fatal(err)
	}
	// The user of the service is that of the test.
	runuser := "#!/bin/sh\n[ \"$1 $2 $3\" = '-u worldevents --' ] && shift 3 && exec \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "runuser"), []byte(runuser), 0o700); err != nil {
		t.Fatal(err)
	}
	journalctl := "#!/bin/sh\n[ \"$*\" = '--identifier=worldevents --output=cat' ] && cat journal\n"
	if err := os.WriteFile(filepath.Join(bin, "journalctl"), []byte(journalctl), 0o700); err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, p: servicetest.NewProgram(t), env: []string{
		"PATH=" + bin + ":" + server.Binaries() + ":" + os.Getenv("PATH"),
		"PGHOST=" + address.Hostname(), "PGPORT=" + address.Port(), "PGUSER=" + address.User.Username(),
	}}
	var lines []string
	for _, line := range append(m.p.Env, "SHUTDOWN_TIMEOUT=1s", "LOG_LEVEL=warn") {
		if !strings.HasPrefix(line, "LISTEN_ADDR=") && !strings.HasPrefix(line, "ADMIN_ADDR=") {
			lines = append(lines, line)
		}
	}
	if err := os.WriteFile(filepath.Join(m.p.Dir, ".env"), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m.p.Env = append([]string{"LISTEN_ADDR=" + m.p.Getenv("LISTEN_ADDR"), "ADMIN_ADDR=" + m.p.Getenv("ADMIN_ADDR")}, m.env...)
	m.service = m.p.ServeReady()
	return m
}

// run runs a script as somebody would who types it, and stops at the first command that fails.
func (m *machine) run(script string) {
	m.t.Helper()
	command := exec.Command("sh", "-eu", "-c", script)
	command.Dir, command.Env = m.p.Dir, m.env
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	done := make(chan error, 1)
	var output []byte
	go func() {
		var err error
		output, err = command.CombinedOutput()
		done <- err
	}()
	request := filepath.Join(m.p.Dir, "systemctl.request")
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		select {
		case err := <-done:
			if err != nil {
				m.t.Fatalf("%v: %s\n%s", err, output, script)
			}
			return
		case <-time.After(20 * time.Millisecond):
		}
		if asked, err := os.ReadFile(request); err == nil {
			m.systemctl(strings.TrimSpace(string(asked)))
			os.Remove(request)
		}
	}
	m.t.Fatalf("has no end:\n%s", script)
}

func (m *machine) systemctl(what string) {
	m.t.Helper()
	switch what {
	case "stop worldevents":
		m.service.Signal(syscall.SIGTERM)
		m.service.Wait(20 * time.Second)
	case "start worldevents":
		m.service = m.p.ServeReady()
	case "reload worldevents":
		n := len(m.service.Log.String())
		m.service.Signal(syscall.SIGHUP)
		since := func() string { return m.service.Log.String()[n:] }
		servicetest.Eventually(m.t, 20*time.Second, "LOG_LEVEL and both files are read", func() bool {
			return strings.Count(since(), "was read again")+strings.Count(since(), "stays as it is") == 3
		})
		if strings.Contains(since(), "stays as it is") || strings.Count(since(), "changed=true") != 1 {
			m.t.Errorf("%s", since())
		}
	default:
		m.t.Errorf("systemctl %s", what)
	}
}

// is expects the status of a request.
func (m *machine) is(method, path, body, cookies string, want int) {
	m.t.Helper()
	if status, text := m.service.Do(method, path, body, cookies); status != want {
		m.t.Errorf("%s %s: %d %s, want %d", method, path, status, text, want)
	}
}

func (m *machine) list(cookies string) string {
	m.t.Helper()
	status, body := m.service.Do("GET", servicetest.Plaza, "", cookies)
	if status != 200 {
		m.t.Errorf("list: %d %s", status, body)
	}
	return body
}

func (m *machine) signIn(name string) string {
	m.t.Helper()
	return strings.TrimSpace(m.p.MustRun("session", "issue", name))
}

// The runbooks of OPERATING.md do what they say, run exactly as they are printed: a backup, a restore after which no token of
// before lives, growing to PostgreSQL in which sessions go on, and a restore there.
func TestRunbooks(t *testing.T) {
	t.Parallel()
	server := servicetest.NewPostgresServer(t)
	server.Exec("DROP DATABASE worldevents")
	m := newMachine(t, server)
	backup, restore, grow := runbooks(t, "Back up")[0], runbooks(t, "Restore"), runbooks(t, "Grow to PostgreSQL")[0]
	// restored is a backup, what happens after it, and its restoring by a script.
	restored := func(script string) {
		t.Helper()
		current := m.signIn("alice")
		m.is("POST", servicetest.Plaza, servicetest.EventBody, current, 200)
		m.signIn("bob")
		before := m.list(current)
		m.run(backup)
		m.is("GET", servicetest.RefreshPath, "", current, 200) // spent now, and current in the backup
		m.is("POST", servicetest.Plaza, servicetest.EventBody, current, 200)
		latest := m.signIn("bob")
		m.run("worldevents user block bob 2>>journal")
		m.run(script)
		if shown := m.p.MustRun("user", "show", "bob"); strings.Contains(shown, `"blocked":null`) {
			t.Errorf("bob is not blocked: %s", shown)
		}
		m.run("worldevents user unblock bob 2>>journal")
		for _, cookies := range []string{current, latest} {
			m.is("GET", servicetest.RefreshPath, "", cookies, 400)
			m.is("GET", servicetest.Plaza, "", cookies, 401)
		}
		if got := m.list(m.signIn("alice")); got != before {
			t.Errorf("the list is %s, and was %s at the backup", got, before)
		}
	}
	restored(restore[0])

	current := m.signIn("alice")
	before := m.list(current)
	m.run(grow)
	if got := m.list(current); got != before {
		t.Errorf("the list is %s, and was %s before growing", got, before)
	}
	m.is("GET", servicetest.RefreshPath, "", current, 200)
	m.is("GET", servicetest.RefreshPath, "", current, 400)
	m.is("POST", servicetest.Plaza, servicetest.EventBody, current, 200)

	restored(restore[1])
	if env, _ := os.ReadFile(filepath.Join(m.p.Dir, ".env")); !strings.Contains(string(env), "\nDATABASE_URL=postgres:///worldevents_restored\n") {
		t.Errorf("%s", env)
	}
}

// So do those that rotate a key and the role of the database: nobody is signed out by them before the old key is gone.
func TestRotationRunbooks(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("openssl"); err != nil {
		servicetest.Missing(t, "needs openssl: %v", err)
	}
	server := servicetest.NewPostgresServer(t)
	for _, statement := range []string{
		"CREATE ROLE worldevents", "ALTER DATABASE worldevents OWNER TO worldevents",
		"CREATE ROLE worldevents_a LOGIN PASSWORD 'hunter2' IN ROLE worldevents", "ALTER ROLE worldevents_a SET role = worldevents",
	} {
		server.Exec(statement)
	}
	m := newMachine(t, server)
	secrets := filepath.Join(m.p.Dir, "secrets")
	if err := os.Mkdir(secrets, 0o700); err != nil {
		t.Fatal(err)
	}
	writeSecret(t, filepath.Join(secrets, "jwt"), keyA+"\n")
	writeSecret(t, filepath.Join(secrets, "url"), strings.Replace(server.URL(), "postgres@", "worldevents_a:hunter2@", 1)+"\n")
	m.systemctl("stop worldevents")
	writeSecret(t, filepath.Join(m.p.Dir, ".env"), "APP_ENV=development\nLOG_LEVEL=warn\nDB_TIMEOUT=20s\nJWT_SECRET_FILE=secrets/jwt\nDATABASE_URL_FILE=secrets/url\n")
	m.systemctl("start worldevents")

	key, password := runbooks(t, "Rotate a key"), runbooks(t, "Rotate the database password")
	old := m.signIn("alice")
	m.is("GET", servicetest.Plaza, "", old, 200)
	m.run(key[0])
	m.is("GET", servicetest.Plaza, "", old, 200)
	m.run(key[1])
	m.is("GET", servicetest.Plaza, "", old, 200)
	latest := m.signIn("bob")
	m.run(key[2])
	m.is("GET", servicetest.Plaza, "", old, 401)
	m.is("GET", servicetest.RefreshPath, "", old, 200)
	m.is("GET", servicetest.Plaza, "", latest, 200)

	m.run(password[0])
	m.is("POST", servicetest.Plaza, servicetest.EventBody, latest, 200)
	db := server.Database()
	servicetest.Eventually(t, 30*time.Second, "no connection of the old role is left", func() bool {
		var n int
		db.Read("SELECT count(*) FROM pg_stat_activity WHERE usename = 'worldevents_a'", nil, &n)
		return n == 0
	})
	m.run(password[1])
	m.is("POST", servicetest.Plaza, servicetest.EventBody, latest, 200)
	for _, name := range []string{"jwt", "url"} {
		if info, err := os.Stat(filepath.Join(secrets, name)); err != nil || info.Mode() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
	}
}
