package runbooks

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// Keys of these tests, in hexadecimal as openssl prints them.
const (
	keyA = "1f0e9d8c7b6a59483726150493a2b1c0d1e2f3041526374859607182a3b4c5d6"
	keyB = "2a4c6e80b1d3f597c8e0a2d4f6081b3d5f7193a5c7e9fb0d2e4f60718293a4b5"
)

// runbooks returns the scripts below a heading of a page of docs/operate, as they are printed.
func runbooks(t *testing.T, page, heading string) (scripts []string) {
	t.Helper()
	_, section, _ := strings.Cut(servicetest.Shipped(t, "docs/operate/"+page+".md"), "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, script := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1) {
		scripts = append(scripts, script[1])
	}
	if len(scripts) == 0 {
		t.Fatalf("%s has no runbook %q", page, heading)
	}
	return scripts
}

// serviceID is the number of the service's user and of its group, when root runs the tests. Nobody else has it. Other users run all by themselves.
const serviceID = 61234

// root reports whether the service can have a user of its own.
func root() bool { return os.Getuid() == 0 }

// asService returns a command that goes on as the service's user, and with the capability of the unit if it is to have that.
func asService(capable bool) string {
	switch {
	case !root():
		return "env"
	case capable:
		return fmt.Sprintf("setpriv --reuid=%[1]d --regid=%[1]d --clear-groups --inh-caps=+net_bind_service --ambient-caps=+net_bind_service --pdeathsig=KILL", serviceID)
	default:
		return fmt.Sprintf("setpriv --reuid=%[1]d --regid=%[1]d --clear-groups", serviceID)
	}
}

// folder makes a folder that the service's user can pass.
func folder(t *testing.T) (path string) {
	t.Helper()
	path = t.TempDir()
	servicetest.NoError(t, os.Chmod(filepath.Dir(path), 0o755))
	return path
}

// own gives a file to a user and to the group of the service, and returns its path.
func own(t *testing.T, path string, user int, mode os.FileMode) string {
	t.Helper()
	servicetest.NoError(t, os.Chmod(path, mode))
	if root() {
		servicetest.NoError(t, os.Lchown(path, user, serviceID))
	}
	return path
}

// reachable is a copy of the program that the service's user can reach.
func reachable(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(folder(t), "worldevents")
	servicetest.WriteExecutable(t, path, string(servicetest.Must(os.ReadFile(servicetest.Binary(t)))(t)))
	return path
}

// machine is what the runbooks want: the program in the PATH, its two folders, and systemd, which here is the test.
// Root's side of a runbook has no right to other users' files: it fails where it touches what is below state.
type machine struct {
	t       *testing.T
	p       *servicetest.Program // in the folder that is here /etc/worldevents, where runbooks are pasted, too
	state   string               // is here /var/lib/worldevents
	world   string               // has what stand-ins say and take
	service *servicetest.Process // nil while it is stopped
	env     []string
	// replace has what a page names in the place of which this machine has something else.
	replace *strings.Replacer
	lacks   string // the capabilities that root's side does not have
	upgrade func() // what pg_upgradecluster does
}

// standIns are commands that a test has no right to run. They take what the runbooks give them, and nothing else.
var standIns = map[string]string{
	"systemctl": `[ "$1" = show ] && exec cat "$WORLD/pid"
[ "$*" = 'start worldevents-backup' ] && { cd "$ETC"; exec runuser -u worldevents -- backup; }
echo "$*" >"$WORLD/new" && mv "$WORLD/new" "$WORLD/request"
while [ -e "$WORLD/request" ]; do sleep 0.02; done
`,
	"pg_upgradecluster": "systemctl \"pg_upgradecluster $*\"\n",
	"runuser":           "[ \"$1 $2 $3\" = '-u worldevents --' ] && shift 3 && exec $AS_SERVICE \"$@\"\n",
	// What it starts is in no folder of root's, and its commands are steps as well.
	"systemd-run": `cd /
user= capability=
while :; do
  case $1 in
  --quiet | --pipe | --wait | --collect) ;;
  --uid=worldevents) user=1 ;;
  --property=AmbientCapabilities=CAP_NET_BIND_SERVICE) capability=1 ;;
  -*) exit 1 ;;
  *) break ;;
  esac
  shift
done
[ "$user$capability" = 11 ] && PATH=$STEPPED:$PATH exec $AS_CAPABLE "$@"
`,
	// It has everybody's lines, unless it is told whose.
	"journalctl": `all=" $* "
for one in --identifier=worldevents _UID=0 "_UID=$SERVICE" --output=cat; do
  case $all in *" $one "*) ;; *) exit 1 ;; esac
done
cat "$WORLD/journal"
`,
	"id":      "case $* in '-u worldevents') echo \"$SERVICE\" ;; *) exit 1 ;; esac\n",
	"useradd": "exit 0\n",
	// It knows the service's user by number, and a user alone gives nothing away.
	"install": `PATH=${PATH#*:}
n=$#
while [ "$n" -gt 0 ]; do
  case $1 in
  -o | -g)
    case $2 in root) id=0 ;; worldevents) id=$SERVICE ;; *) exit 1 ;; esac
    [ -z "$AS_CAPABLE" ] || set -- "$@" "$1" "$id"
    shift
    n=$((n - 1)) ;;
  *) set -- "$@" "$1" ;;
  esac
  shift
  n=$((n - 1))
done
exec install "$@"
`,
	// Each is later than the one before, as those of people are who paste.
	"date": "PATH=${PATH#*:}\necho x >>\"$WORLD/dates\"\ndate -d \"2030-01-01 +$(wc -l <\"$WORLD/dates\") min\" \"$@\"\n",
}

// step is every command of a runbook: it leaves a line, and fails if it is told to.
const step = `#!/bin/sh
name=${0##*/}
PATH=${PATH#*:}
echo "$name" >>"$STEPS"
[ "$FAIL" = "$name $(grep -c "^$name\$" "$STEPS")" ] && { echo "$name fails" >&2; exit 1; }
exec "$name" "$@"
`

// newMachine has nothing in its two folders.
func newMachine(t *testing.T, server *servicetest.PostgresServer) *machine {
	t.Helper()
	bin, steps := folder(t), folder(t)
	program := reachable(t)
	servicetest.NoError(t, os.Symlink(program, filepath.Join(bin, "worldevents")))
	for name, text := range standIns {
		servicetest.WriteExecutable(t, filepath.Join(bin, name), "#!/bin/sh\n"+text)
	}
	for _, name := range []string{"cat", "cp", "createdb", "curl", "cut", "date", "find", "grep", "id", "install", "journalctl", "ls", "mkdir", "mktemp", "mv", "openssl", "psql", "rm",
		"runuser", "sed", "sha256sum", "sleep", "systemctl", "systemd-run", "tail", "useradd"} {
		servicetest.WriteExecutable(t, filepath.Join(steps, name), step)
	}
	address := servicetest.Must(url.Parse(server.URL()))(t)
	m := &machine{t: t, p: servicetest.NewEmptyProgram(t), state: folder(t), world: folder(t), lacks: "-dac_override,-dac_read_search,-fowner"}
	user, capable := os.Getuid(), ""
	if root() {
		user, capable = serviceID, asService(true)
	}
	m.env = []string{
		"PATH=" + steps + ":" + bin + ":" + server.Binaries() + ":" + os.Getenv("PATH"),
		"PGHOST=" + address.Hostname(), "PGPORT=" + address.Port(), "PGUSER=" + address.User.Username(),
	}
	// The unit gives the service what it has, and this machine ports.
	m.p.Env = append([]string{"LISTEN_ADDR=" + m.p.Getenv("LISTEN_ADDR"), "ADMIN_ADDR=" + m.p.Getenv("ADMIN_ADDR"), "PATH=" + bin + ":" + os.Getenv("PATH")}, m.env[1:]...)
	for _, line := range regexp.MustCompile(`(?m)^Environment=(.*)$`).FindAllStringSubmatch(servicetest.Shipped(t, servicetest.UnitFile), -1) {
		m.p.Env = append(m.p.Env, line[1])
	}
	m.env = append(m.env, m.p.Env[0], m.p.Env[1], "ETC="+m.p.Dir, "WORLD="+m.world, "STEPPED="+steps, fmt.Sprint("SERVICE=", user),
		"AS_SERVICE="+asService(false), "AS_CAPABLE="+capable)
	m.replacing()
	// Backups have the time in seconds as their names, and nights are longer.
	night := "#!/bin/sh\nwhile [ -e " + m.state + "/backups/\"$(/bin/date -u +%Y%m%dT%H%M%SZ)\".db ]; do /bin/sleep 0.1; done\n"
	servicetest.WriteExecutable(t, filepath.Join(bin, "backup"), night+m.oneshot("deploy/worldevents-backup.service"))
	servicetest.WriteExecutable(t, filepath.Join(bin, "service"), "#!/bin/sh\numask 077\nexec "+asService(true)+" "+program+" \"$@\"\n")
	m.p = m.p.At(filepath.Join(bin, "service"))
	own(t, filepath.Dir(m.p.Dir), 0, 0o755)
	own(t, m.p.Dir, 0, 0o750)
	own(t, m.state, serviceID, 0o700)
	for _, name := range []string{"journal", "dates"} {
		servicetest.WriteSecret(t, filepath.Join(m.world, name), "")
		own(t, filepath.Join(m.world, name), 0, 0o666)
	}
	return m
}

// replacing has this machine's folders and ports in the place of those that pages name, and more.
func (m *machine) replacing(more ...string) {
	m.replace = strings.NewReplacer(append([]string{"/etc/worldevents", m.p.Dir, "/var/lib/worldevents", m.state, "127.0.0.1:9090", m.p.Getenv("ADMIN_ADDR")}, more...)...)
}

// oneshot is a script that does what systemd does with a unit that only runs shells. What the environment has wins.
func (m *machine) oneshot(unit string) string {
	m.t.Helper()
	text := servicetest.Shipped(m.t, unit)
	script := "#!/bin/sh\nset -e\n"
	for _, set := range regexp.MustCompile(`(?m)^Environment=(\w+)=(\S+)$`).FindAllStringSubmatch(text, -1) {
		script += fmt.Sprintf("export %[1]s=\"${%[1]s:-%[2]s}\"\n", set[1], set[2])
	}
	starts := regexp.MustCompile(`(?m)^ExecStart=/bin/sh -euc '([^']*)'$`).FindAllStringSubmatch(text, -1)
	if len(starts) == 0 || len(starts) != strings.Count(text, "ExecStart=") {
		m.t.Fatalf("%s starts %q", unit, starts)
	}
	unescape := strings.NewReplacer("$$", "$", "%%", "%", "/usr/local/bin/", "")
	for _, start := range starts {
		script += "sh -euc '" + unescape.Replace(start[1]) + "'\n"
	}
	return m.replace.Replace(script)
}

// write replaces a file of root's that the service reads.
func (m *machine) write(name, text string) {
	m.t.Helper()
	path := filepath.Join(m.p.Dir, name)
	servicetest.WriteSecret(m.t, path, text)
	own(m.t, path, 0, 0o640)
}

// secrets makes their folder, with a key.
func (m *machine) secrets() (path string) {
	m.t.Helper()
	path = filepath.Join(m.p.Dir, "secrets")
	servicetest.NoError(m.t, os.Mkdir(path, 0o750))
	own(m.t, path, 0, 0o750)
	m.write("secrets/jwt", keyA+"\n")
	return path
}

// serving is newMachine with a service on SQLite, in the layout of day one.
func serving(t *testing.T, server *servicetest.PostgresServer) *machine {
	t.Helper()
	m := newMachine(t, server)
	m.secrets()
	m.settings(m.sqlite())
	m.p.MustRun("migrate")
	m.start()
	return m
}

// sqlite is the setting of day one.
func (m *machine) sqlite() string {
	return "DATABASE_URL=sqlite:" + filepath.Join(m.state, "worldevents.db")
}

// settings are all that is in .env beside those that tests need.
func (m *machine) settings(lines ...string) {
	m.t.Helper()
	lines = append(lines, "APP_ENV=development", "JWT_SECRET_FILE=secrets/jwt", "SHUTDOWN_TIMEOUT=1s", "LOG_LEVEL=warn", "LOG_FORMAT=json", "DB_TIMEOUT=20s", "WRITE_RATE=0")
	m.write(".env", strings.Join(lines, "\n")+"\n")
}

// command runs a command of the service, whose audit line goes into the journal.
func (m *machine) command(words string) {
	m.t.Helper()
	m.run("{ runuser -u worldevents -- worldevents " + words + `; } 2>>"$WORLD/journal"`)
}

// run runs a script that must succeed, and returns its steps: the commands that it called.
func (m *machine) run(script string) (steps []string) {
	m.t.Helper()
	steps, err := m.try(script, "")
	if err != nil {
		m.t.Fatalf("%v\n%s", err, script)
	}
	return steps
}

// try runs a script as somebody would who pastes it, with one step failing: "mv 2" is the second mv. The error has what it wrote.
func (m *machine) try(script, fail string) (steps []string, err error) {
	m.t.Helper()
	log := filepath.Join(folder(m.t), "steps")
	servicetest.WriteSecret(m.t, log, "")
	own(m.t, log, 0, 0o666)
	words := []string{"sh", "-c", m.replace.Replace(script)}
	if root() {
		words = append([]string{"setpriv", "--bounding-set=" + m.lacks}, words...)
	}
	command := exec.Command(words[0], words[1:]...)
	command.Dir, command.Env = m.p.Dir, append(slices.Clone(m.env), "STEPS="+log, "FAIL="+fail)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	done := servicetest.Must(servicetest.StartCommand(command))(m.t)
	request := filepath.Join(m.world, "request")
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		select {
		case <-done:
			if !command.ProcessState.Success() {
				err = fmt.Errorf("%v: %s", command.ProcessState, output.String())
			}
			text, _ := os.ReadFile(log)
			return strings.Fields(string(text)), err
		case <-time.After(20 * time.Millisecond):
		}
		if asked, err := os.ReadFile(request); err == nil {
			m.systemctl(strings.TrimSpace(string(asked)))
			os.Remove(request)
		}
	}
	m.t.Fatalf("has no end:\n%s", script)
	return nil, nil
}

// fails runs a script that must fail and say that, with one step failing if it is named. It returns its steps.
func (m *machine) fails(script, step, words string) (steps []string) {
	m.t.Helper()
	steps, err := m.try(script, step)
	if err == nil || !strings.Contains(err.Error(), words) {
		m.t.Errorf("with %q failing it ends with %v, want %q: %s", step, err, words, script)
	}
	return steps
}

func (m *machine) systemctl(what string) {
	m.t.Helper()
	switch what {
	case "stop worldevents", "restart worldevents":
		if m.service != nil {
			m.service.Stop()
			m.service = nil
		}
		if what == "restart worldevents" {
			m.systemctl("start worldevents")
		}
	case "start worldevents", "enable --now worldevents worldevents-backup.timer":
		if m.service == nil {
			m.service = m.p.Serve()
			servicetest.WriteSecret(m.t, filepath.Join(m.world, "pid"), fmt.Sprintln(m.service.Pid()))
		}
	case "reload worldevents":
		n := len(m.service.Log.String())
		m.service.Signal(syscall.SIGHUP)
		since := func() string { return m.service.Log.String()[n:] }
		files := 1 + strings.Count(m.dotEnv(), "_FILE=") + strings.Count(m.dotEnv(), "TLS=files")
		servicetest.Eventually(m.t, "LOG_LEVEL and the files are read", func() bool {
			return strings.Count(since(), `"msg":"SIGHUP: `) == files
		})
		journal := servicetest.Must(os.OpenFile(filepath.Join(m.world, "journal"), os.O_WRONLY|os.O_APPEND, 0))(m.t)
		defer journal.Close()
		io.WriteString(journal, since())
	case "kill --signal=STOP worldevents":
		m.service.Signal(syscall.SIGSTOP)
	case "kill --signal=CONT worldevents":
		m.service.Signal(syscall.SIGCONT)
	case "daemon-reload":
	case "pg_upgradecluster --method=upgrade 15 main":
		m.upgrade()
	default:
		m.t.Errorf("systemctl %s", what)
	}
}

// start starts the service and waits until it is ready.
func (m *machine) start() {
	m.t.Helper()
	m.systemctl("start worldevents")
	m.service.Readiness(200, servicetest.Soon)
}

// read is the text of a file of root's.
func (m *machine) read(name string) string {
	m.t.Helper()
	return string(servicetest.Must(os.ReadFile(filepath.Join(m.p.Dir, name)))(m.t))
}

func (m *machine) dotEnv() string { return m.read(".env") }

// eachFailure has each step of a runbook fail once: the runbook must stop there, leave what safe looks at, and be good to be
// pasted again. prepare comes before each, and done looks at the end.
func (m *machine) eachFailure(script string, prepare, safe, done func()) {
	m.t.Helper()
	prepare()
	steps := m.run(script)
	done()
	calls := map[string]int{}
	for _, name := range steps {
		calls[name]++
		fail := fmt.Sprint(name, " ", calls[name])
		prepare()
		taken, err := m.try(script, fail)
		// Whoever waits for something asks again, and id fails where there is no such user.
		if asks := strings.Contains(script, "sleep") && (name == "journalctl" || name == "grep" || name == "rm") || name == "sleep" || name == "id"; err == nil && !asks {
			m.t.Errorf("with %s failing it goes on: %v", fail, taken)
		}
		if m.t.Failed() {
			m.t.Fatalf("%s: %v", fail, err)
		}
		if err != nil {
			if safe(); !slices.Contains(taken, "systemctl") {
				continue // nobody has noticed anything
			}
			m.run(script)
		}
		done()
		if m.t.Failed() {
			m.t.Fatalf("after %s had failed", fail)
		}
	}
}

// mode expects that a file has an owner and a mode, and the group of the service.
func (m *machine) mode(path, want string) {
	m.t.Helper()
	info := servicetest.Must(os.Lstat(path))(m.t)
	owner, group := want[:strings.Index(want, " ")], fmt.Sprint(serviceID)
	if is := info.Sys().(*syscall.Stat_t); root() {
		owner, group = fmt.Sprint(is.Uid), fmt.Sprint(is.Gid)
	}
	if got := owner + " " + info.Mode().String(); got != want || group != fmt.Sprint(serviceID) {
		m.t.Errorf("%s belongs to %s and group %s, want %s", path, got, group, want)
	}
}

func (m *machine) list(cookies string) string {
	m.t.Helper()
	return m.service.Is(200, "GET", servicetest.Plaza, "", cookies)
}

// databases are the URLs of all that this machine has, but for backups.
func (m *machine) databases() (urls []string) {
	m.t.Helper()
	files, _ := filepath.Glob(filepath.Join(m.state, "worldevents.db"))
	aside, _ := filepath.Glob(filepath.Join(m.state, "before-*", "worldevents.db"))
	for _, file := range append(files, aside...) {
		urls = append(urls, "sqlite:"+file)
	}
	names := exec.Command("psql", "-tAc", "SELECT datname FROM pg_database WHERE datname LIKE 'worldevents%'", "postgres")
	names.Env = m.env
	names.Path = filepath.Join(strings.Split(m.env[0], ":")[2], "psql")
	out := servicetest.Must(names.Output())(m.t)
	for _, name := range strings.Fields(string(out)) {
		urls = append(urls, "postgres:///"+name)
	}
	return urls
}

// isKept expects that some database has an event of this name, and that no service is on an empty one.
func (m *machine) isKept(name string) {
	m.t.Helper()
	databases := m.databases()
	slices.Reverse(databases) // the newest has it
	if !slices.ContainsFunc(databases, func(database string) bool {
		out, _, _ := m.p.With("DATABASE_URL="+database).Run("event", "list", "--world", "plaza")
		return strings.Contains(out, name)
	}) {
		m.t.Errorf("no database has %s", name)
	}
	out, _, status := m.p.Run("event", "list", "--world", "plaza")
	if status != 0 && m.service == nil {
		if _, stderr, status := m.p.Run("serve"); status != 1 || !strings.Contains(stderr, "REQUIRE_DATABASE") {
			m.t.Errorf("it would start without a database: %d %s", status, stderr)
		}
	} else if !strings.Contains(out, `"name"`) {
		m.t.Errorf("it serves, or would, %d %s", status, out)
	}
}

// The runbooks of backup.md and postgresql.md do what they say, run exactly as they are printed: a backup, a restore after which no token of
// before lives, growing to PostgreSQL in which sessions go on, and a restore there. Whatever step of them fails, nothing is lost,
// and no service comes up on an empty database.
func TestRunbooks(t *testing.T) {
	t.Parallel()
	backup, restore, grow := runbooks(t, "backup", "Back up")[0], runbooks(t, "backup", "Restore"), runbooks(t, "postgresql", "Grow to PostgreSQL")[0]
	restored := func(m *machine, script string) {
		var before, current, bob, name string
		n := 0
		m.eachFailure(script, func() {
			n++
			m.command("user unblock bob || true")
			name = fmt.Sprint("latest ", n)
			current = m.p.Issue("alice")
			m.service.Is(200, "POST", servicetest.Plaza, servicetest.EventBody, current)
			m.p.Issue("bob")
			before = m.list(current)
			m.run(backup)
			m.command("copy --to sqlite:/var/lib/worldevents/backups/by-hand.db || true") // which is of before from the second time on, and is not restored
			m.service.Is(200, "GET", servicetest.RefreshPath, "", current)                // spent now, and current in the backup
			m.service.Is(200, "POST", servicetest.Plaza, strings.Replace(servicetest.EventBody, "Chess", name, 1), current)
			bob = m.p.Issue("bob")
			m.command("user block bob")
		}, func() { m.isKept(name) }, func() {
			servicetest.Lacks(t, m.p.MustRun("user", "show", "bob"), `"blocked":null`)
			for _, cookies := range []string{current, bob} {
				m.service.Is(400, "GET", servicetest.RefreshPath, "", cookies)
				m.service.Is(401, "GET", servicetest.Plaza, "", cookies)
			}
			m.command("user unblock bob")
			servicetest.Is(t, m.list(m.p.Issue("alice")), before, "the list of the backup")
			m.isKept(name) // put aside
		})
	}
	server := func(t *testing.T) *servicetest.PostgresServer {
		server := servicetest.NewPostgresServer(t)
		server.Exec("DROP DATABASE worldevents")
		return server
	}
	t.Run("restore", func(t *testing.T) {
		t.Parallel()
		restored(serving(t, server(t)), restore[0])
	})
	t.Run("restore PostgreSQL", func(t *testing.T) {
		t.Parallel()
		m := serving(t, server(t))
		m.run(grow)
		restored(m, restore[1])
		if !strings.Contains(m.dotEnv(), "\nDATABASE_URL=postgres:///worldevents_2030") && !strings.HasPrefix(m.dotEnv(), "DATABASE_URL=postgres:///worldevents_2030") {
			t.Errorf("%s", m.dotEnv())
		}
	})
	t.Run("grow", func(t *testing.T) {
		t.Parallel()
		m := serving(t, server(t))
		var current, before string
		m.eachFailure(grow, func() {
			m.systemctl("stop worldevents")
			files, _ := filepath.Glob(filepath.Join(m.state, "worldevents.db*"))
			for _, file := range files {
				os.Remove(file)
			}
			m.settings(m.sqlite())
			m.p.MustRun("migrate")
			m.start()
			current = m.p.Issue("alice")
			m.service.Is(200, "POST", servicetest.Plaza, servicetest.EventBody, current)
			before = m.list(current)
		}, func() {
			m.service.Readiness(200, servicetest.Soon)
			m.service.Is(200, "POST", "/api/event/w", servicetest.EventBody, current) // nothing is held
			m.isKept("Chess")
		}, func() {
			servicetest.Is(t, m.list(current), before, "the list after growing")
			m.service.Is(200, "GET", servicetest.RefreshPath, "", current)
			m.service.Is(400, "GET", servicetest.RefreshPath, "", current)
			m.service.Is(200, "POST", servicetest.Plaza, servicetest.EventBody, current)
		})
		// A hold that has ended has let somebody write.
		m.systemctl("stop worldevents")
		m.settings(m.sqlite())
		ended := strings.Replace(grow, "grep -F \"$rows\"", "kill $!; sleep 1; grep -F \"$rows\"", 1)
		m.fails(ended, "", "")
		servicetest.Contains(t, m.dotEnv(), "sqlite:")
	})
}

// What a service has acknowledged is saved out of it after its file was deleted, or replaced by another. Where a step before the stop fails, the
// service runs on, and the runbook is good to be pasted again.
func TestSaveRunbook(t *testing.T) {
	t.Parallel()
	m := serving(t, servicetest.NewPostgresServer(t))
	script := runbooks(t, "sqlite", "Save a removed file")[0]
	current := m.p.Issue("alice")
	for n, fault := range []string{"rm $0", "rm $0*", "rm $0* && worldevents migrate"} {
		m.service.Is(200, "POST", servicetest.Plaza, servicetest.EventBody, current)
		m.run("runuser -u worldevents -- sh -c '" + fault + "' /var/lib/worldevents/worldevents.db")
		m.service.Is(500, "POST", servicetest.Plaza, servicetest.EventBody, current) // it was too late to take it back, and nobody knows what becomes of it
		before := m.list(current)
		if got := strings.Count(before, `"Chess"`); got < n+1 {
			t.Fatalf("after %s there are %d events", fault, got)
		}
		for _, fail := range []string{"systemctl 1", "runuser 1", "systemctl 2", "systemd-run 1", "systemd-run 2", "find 1", "find 2", "install 1", "install 2", "systemctl 3", "systemctl 4"} {
			m.fails(script, fail, "")
			servicetest.Is(t, m.list(current), before, "the list after %s and %s: the service runs on", fault, fail)
		}
		m.run(script)
		servicetest.Is(t, m.list(current), before, "the list after %s", fault)
	}
	m.service.Is(200, "POST", servicetest.Plaza, servicetest.EventBody, current)
	m.systemctl("stop worldevents")
	servicetest.WriteSecret(t, filepath.Join(m.world, "pid"), "0\n")
	if taken := m.fails(script, "", ""); slices.Contains(taken, "runuser") {
		t.Errorf("without a service it goes on: %v", taken)
	}
}

// A database is grown while people read it. GROWRSVPS says how large, in RSVPs: a million is what the page tells the times of; fewer
// are quicker to make.
func TestGrowOfALargeDatabase(t *testing.T) {
	t.Parallel()
	rsvps, err := strconv.Atoi(os.Getenv("GROWRSVPS"))
	if err != nil {
		rsvps = 50_000
	}
	server := servicetest.NewPostgresServer(t)
	server.Exec("DROP DATABASE worldevents")
	m := serving(t, server)
	db := servicetest.OpenSQLite(t, filepath.Join(m.state, "worldevents.db"))
	servicetest.Seed(db, rsvps/25, rsvps/20, rsvps)
	m.systemctl("stop worldevents")
	m.write(".env", strings.NewReplacer("SHUTDOWN_TIMEOUT=1s\n", "", "DB_TIMEOUT=20s\n", "").Replace(m.dotEnv()))
	m.start()
	reader, writer := m.p.Issue("reader"), m.p.Issue("writer")
	// The new process has the addresses of the one before.
	service := m.service
	away := func(method, path, body, cookies string) func() time.Duration {
		var longest time.Duration
		var stop atomic.Bool
		var polling sync.WaitGroup
		polling.Go(func() {
			last := time.Now()
			for ended := false; !ended; time.Sleep(20 * time.Millisecond) {
				ending := stop.Load()
				if status, _ := service.Do(method, path, body, cookies); status == 200 {
					longest, last = max(longest, time.Since(last)), time.Now()
					ended = ending
				}
			}
		})
		return func() time.Duration {
			stop.Store(true)
			polling.Wait()
			return longest
		}
	}
	lists, writes := away("GET", "/api/event/world%201", "", reader), away("POST", servicetest.Plaza, servicetest.EventBody, writer)
	m.run(runbooks(t, "postgresql", "Grow to PostgreSQL")[0])
	m.service.Is(200, "POST", servicetest.Plaza, servicetest.EventBody, writer)
	listsAway, writesAway := lists(), writes()
	t.Logf("%d RSVPs: lists were away for %.1f s, writes for %.1f s", rsvps, listsAway.Seconds(), writesAway.Seconds())
	if listsAway > writesAway/2 { // a restart is shorter than a copy, a check and a restart
		t.Errorf("lists were away for %v, writes for %v", listsAway, writesAway)
	}
}

// A night's backup says one line, keeps the newest, hands the new one to the hook, and removes what killed copies have left, but nothing
// else. Whatever fails is said, and costs no backup that is there.
func TestBackups(t *testing.T) {
	t.Parallel()
	m := serving(t, servicetest.NewPostgresServer(t))
	m.env = append(m.env, "KEEP=2")
	kept := filepath.Join(m.state, "backups")
	backups := func() (names []string) {
		entries := servicetest.Must(os.ReadDir(kept))(t)
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		return names
	}
	wrote := func(name string) string {
		return string(servicetest.Must(os.ReadFile(filepath.Join(m.world, name)))(t))
	}
	backup := runbooks(t, "backup", "Back up")[0]
	start := "systemctl start worldevents-backup >\"$WORLD/said\" 2>&1"
	m.run(start)
	first := backups()
	if len(first) != 1 || !servicetest.IsAudit(wrote("said")) {
		t.Errorf("%q, and it said %s", first, wrote("said"))
	}
	const left, running = "20190101T000000Z.db.copying", "20190102T000000Z.db.copying"
	before := time.Now().Add(-25 * time.Hour)
	for _, name := range []string{left, left + "-journal", running, "before-the-upgrade.db", "20190101.db"} {
		path := filepath.Join(kept, name)
		servicetest.WriteSecret(t, path, "SQLite format 3\x00")
		own(t, path, serviceID, 0o600)
		if strings.HasPrefix(name, left) {
			servicetest.NoError(t, os.Chtimes(path, before, before))
		}
	}
	servicetest.WriteExecutable(t, filepath.Join(m.p.Dir, "offsite"), "#!/bin/sh\n[ ! -e \"$WORLD/refuse\" ] && echo \"$1\" >\"$WORLD/sent\"\n")
	servicetest.WriteSecret(t, filepath.Join(m.world, "sent"), "")
	own(t, filepath.Join(m.world, "sent"), 0, 0o666)
	m.run(start)
	m.run(backup)
	names := backups()
	if len(names) != 5 || names[0] != "20190101.db" || names[1] != running || names[4] != "before-the-upgrade.db" || slices.Contains(names, first[0]) {
		t.Errorf("there are %q, and the first was %q", names, first)
	}
	servicetest.Is(t, wrote("sent"), filepath.Join(kept, names[3])+"\n", "what the hook got of %q", names)
	m.fails("export DATABASE_URL=sqlite:/var/lib/worldevents/nowhere.db; "+backup, "", "nowhere.db")
	servicetest.Is(t, backups(), names, "backups after one that failed")
	for _, keep := range []string{"0", "many"} { // there is one more all the same
		m.fails("export KEEP="+keep+"; "+backup, "", "--keep: ")
		now := backups()
		if len(now) != len(names)+1 || slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(now, name) }) {
			t.Errorf("there are %q with KEEP=%s, and were %q", now, keep, names)
		}
		names = now
	}
	m.run(backup)
	names = backups()
	servicetest.WriteSecret(t, filepath.Join(m.world, "refuse"), "")
	m.fails(backup, "", "")
	if now := backups(); len(now) != 5 || now[2] != names[3] {
		t.Errorf("there are %q after the hook has failed, and were %q", now, names)
	}
}

// Day one leads to a service, and with the runbook of TLS to one that speaks it, whatever step fails first. The key that the first
// try has drawn stays.
func TestDayOne(t *testing.T) {
	t.Parallel()
	m := newMachine(t, servicetest.NewPostgresServer(t))
	m.lacks = "-dac_override,-dac_read_search" // it gives the service its folder, which is in one of root's
	release, programs := folder(t), folder(t)
	for _, name := range []string{"worldevents.service", "worldevents-backup.service", "worldevents-backup.timer"} {
		servicetest.WriteSecret(t, filepath.Join(release, name), servicetest.Shipped(t, "deploy/"+name))
	}
	servicetest.NoError(t, os.Link(reachable(t), filepath.Join(release, "worldevents-1.1.0-linux-amd64")))
	m.replacing("/usr/local/bin", programs, "/etc/systemd/system", programs,
		"( set -eu\ninstall", "( set -eu\ncd "+release+"\ninstall", "LISTEN_ADDR=:443", "", "HTTP_ADDR=:80", "HTTP_ADDR="+servicetest.FreeAddress(t), "curl -i https://api.example.org/api/auth/session", "true")
	dayOne, tls := runbooks(t, "install", "Day one")[1], runbooks(t, "tls-and-proxies", "TLS")[0]
	// The settings of the test alone are those that a machine without domain and root needs.
	m.p.Env = append(m.p.Env, "SHUTDOWN_TIMEOUT=1s", "ACME_DIRECTORY=https://127.0.0.1:1/")
	m.env = append(m.env, "SHUTDOWN_TIMEOUT=1s", "ACME_DIRECTORY=https://127.0.0.1:1/")
	var key string
	m.eachFailure(dayOne, func() {
		if m.service != nil {
			m.systemctl("stop worldevents")
		}
		for _, path := range []string{m.state, filepath.Join(m.p.Dir, ".env"), filepath.Join(m.p.Dir, "secrets")} {
			os.RemoveAll(path)
		}
		key = ""
	}, func() {
		text, _ := os.ReadFile(filepath.Join(m.p.Dir, "secrets/jwt"))
		key = string(text)
	}, func() {
		m.service.Readiness(200, servicetest.Soon)
		if text := m.read("secrets/jwt"); len(text) != 65 || key != "" && text != key {
			t.Errorf("%q was the key, and %q is", key, text)
		}
	})
	for path, want := range map[string]string{"": "0 drwxr-x---", "secrets": "0 drwxr-x---", "secrets/jwt": "0 -rw-r-----", ".env": "0 -rw-r-----"} {
		m.mode(filepath.Join(m.p.Dir, path), want)
	}
	m.mode(m.state, fmt.Sprint(serviceID, " drwx------"))
	m.p.MustRun("user", "add", "alice")
	m.p.MustRun("session", "issue", "alice")
	m.lacks += ",-fowner"
	m.eachFailure(tls, func() {}, func() {}, func() {
		m.service.Readiness(200, servicetest.Soon)
		if n := strings.Count(m.dotEnv(), "TLS=acme\n"); n != 1 || strings.Count(m.dotEnv(), "BASE_URL=https") != 1 {
			t.Errorf("%d %q", n, m.dotEnv())
		}
	})
}

// So do those that rotate a key and the role of the database: nobody is signed out by them before the old key is gone.
func TestRotationRunbooks(t *testing.T) {
	t.Parallel()
	servicetest.Tool(t, "openssl")
	server := servicetest.NewPostgresServer(t)
	for _, statement := range []string{
		"CREATE ROLE worldevents", "ALTER DATABASE worldevents OWNER TO worldevents",
		"CREATE ROLE worldevents_a LOGIN PASSWORD 'hunter2' IN ROLE worldevents", "ALTER ROLE worldevents_a SET role = worldevents",
	} {
		server.Exec(statement)
	}
	m := serving(t, server)
	m.systemctl("stop worldevents")
	secrets := filepath.Join(m.p.Dir, "secrets")
	m.write("secrets/url", strings.Replace(server.URL(), "postgres@", "worldevents_a:hunter2@", 1)+"\n")
	m.settings("DATABASE_URL_FILE=secrets/url")
	m.p.MustRun("migrate")
	m.start()

	key, password := runbooks(t, "secrets", "Rotate a key"), runbooks(t, "secrets", "Rotate the database password")
	jwt := func(keys string) func() { return m.reloading("secrets/jwt", keys+"\n") }
	// A runbook that stops before the file is in its place changes nothing, and one that stops later has the file in its place.
	var old, latest string
	works := func() { m.service.Is(200, "GET", servicetest.Plaza, "", old) }
	m.run(key[0])
	old = m.p.Issue("alice")
	m.eachFailure(key[0], jwt(keyA), works, works)
	m.eachFailure(key[1], jwt(keyA+","+keyB), works, func() {
		works()
		servicetest.Is(t, m.read("secrets/jwt"), keyB+","+keyA+"\n", "the keys")
	})
	latest = m.p.Issue("bob")
	m.eachFailure(key[2], jwt(keyB+","+keyA), func() {}, func() { m.service.Is(401, "GET", servicetest.Plaza, "", old) })
	m.service.Is(200, "GET", servicetest.RefreshPath, "", old)
	m.service.Is(200, "GET", servicetest.Plaza, "", latest)
	m.eachFailure(key[3], jwt(keyB), func() {}, func() { m.service.Is(401, "GET", servicetest.Plaza, "", latest) })
	// The service reads another file: a copy.
	m.write("copy", keyA+"\n")
	m.systemctl("stop worldevents")
	m.write(".env", strings.Replace(m.dotEnv(), "secrets/jwt", "copy", 1))
	m.start()
	for _, script := range key {
		m.fails(strings.Replace(script, "seq 30", "seq 1", 1), "", "the service ")
	}
	if text := m.service.Log.String(); strings.Count(text, `"level":"WARN","msg":"SIGHUP: JWT_SECRET_FILE was read again","changed":false`) != len(key) || !strings.Contains(text, "systemd") {
		t.Errorf("%s", text)
	}

	m.rotatePrivateKeys(secrets)
	latest = m.p.Issue("bob")
	m.eachFailure(password[0], func() {}, func() { m.service.Is(200, "POST", servicetest.Plaza, servicetest.EventBody, latest) },
		func() { m.service.Is(200, "POST", servicetest.Plaza, servicetest.EventBody, latest) })
	db := server.Database()
	servicetest.Eventually(t, "no connection of the old role is left", func() bool {
		var n int
		db.Read("SELECT count(*) FROM pg_stat_activity WHERE usename = 'worldevents_a'", nil, &n)
		return n == 0
	})
	m.eachFailure(password[1], func() {}, func() {}, func() {})
	m.service.Is(200, "POST", servicetest.Plaza, servicetest.EventBody, latest)
	for _, name := range []string{"jwt", "url"} {
		m.mode(filepath.Join(secrets, name), "0 -rw-r-----")
	}
}

// reloading returns what has the service read a file again that has a text, as before a runbook that replaces it.
func (m *machine) reloading(name, text string) func() {
	return func() {
		os.Remove(filepath.Join(m.p.Dir, name+".before"))
		m.write(name, text)
		m.systemctl("reload worldevents")
	}
}

// rotatePrivateKeys takes private keys and rotates them. Who was signed in by a secret stays so.
func (m *machine) rotatePrivateKeys(secrets string) {
	m.t.Helper()
	file, private, took := filepath.Join(secrets, "jwt.pem"), filepath.Join(secrets, "jwt.private"), false
	has := func(published int) {
		m.t.Helper()
		keys := m.service.Is(200, "GET", "/.well-known/jwks.json", "", "")
		servicetest.Is(m.t, strings.Count(keys, `"kid"`), published, "keys of %s", keys)
	}
	old := m.p.Issue("alice")
	works := func() { m.service.Is(200, "GET", servicetest.Plaza, "", old) }
	take := runbooks(m.t, "private-keys", "Take private keys")
	m.eachFailure(take[0], func() {
		if took {
			m.systemctl("stop worldevents")
			os.Remove(file)
			os.Remove(private)
			m.write(".env", strings.Replace(m.dotEnv(), "JWT_PRIVATE_KEY_FILE=secrets/jwt.pem\n", "", 1))
			m.start()
		}
	}, works, func() {
		took = true
		m.service.Readiness(200, servicetest.Soon)
		works()
		has(1)
		servicetest.Is(m.t, m.signsBy(), "HS256", "signs before others have the key")
	})
	keys := func() string { return m.read("secrets/jwt.pem") }
	public, text := keys(), m.read("secrets/jwt.private")
	m.eachFailure(take[1], func() {
		m.write("secrets/jwt.pem", public)
		m.write("secrets/jwt.private", text)
		m.systemctl("reload worldevents")
	}, works, func() {
		works()
		has(1)
		if algorithm := m.signsBy(); algorithm != "EdDSA" || keys() != text {
			m.t.Errorf("%s signs, with %s", algorithm, keys())
		}
	})
	m.fails(take[0], "", "")
	servicetest.Is(m.t, keys(), text, "the key that signs")
	key := runbooks(m.t, "private-keys", "Rotate a private key")
	old = m.p.Issue("carol")
	first := keys()
	before := func(text string) func() { return m.reloading("secrets/jwt.pem", text) }
	m.eachFailure(key[0], before(first), works, func() {
		works()
		if has(strings.Count(keys(), "BEGIN")); keys() == first || !strings.HasPrefix(keys(), first) {
			m.t.Errorf("%s, want another key behind %s", keys(), first)
		}
	})
	before(first)()
	m.run(key[0])
	both := keys()
	second := strings.TrimPrefix(both, first)
	m.eachFailure(key[1], before(both), works, func() {
		works()
		has(2)
		servicetest.Is(m.t, keys(), second+first, "want the second in front of the first of %s", both)
	})
	latest := m.p.Issue("dave")
	m.eachFailure(key[2], before(second+first), func() {}, func() {
		has(1)
		m.service.Is(401, "GET", servicetest.Plaza, "", old)
		m.service.Is(200, "GET", servicetest.Plaza, "", latest)
	})
	m.service.Is(200, "GET", servicetest.RefreshPath, "", old)
	m.mode(file, "0 -rw-r-----")
}

// signsBy is the algorithm of a JWT that the service issues now.
func (m *machine) signsBy() any {
	m.t.Helper()
	browser := servicetest.NewBrowser(m.service.URL, http.DefaultTransport)
	browser.Do("GET", servicetest.RefreshPath, "", servicetest.Header("Cookie", m.p.Issue("erin"))).Is(m.t, 200)
	header, _ := servicetest.DecodeJWT(m.t, browser.Cookies["token"])
	return header["alg"]
}

// What the database has forgotten, since another server has been promoted, is done again: nobody who was blocked signs in, and nobody goes on
// with a session.
func TestPromotionRunbook(t *testing.T) {
	t.Parallel()
	m := serving(t, servicetest.NewPostgresServer(t))
	alice, _ := m.p.Issue("alice"), m.p.Issue("bob")
	m.command("user block bob")
	forgotten, script := func() { m.run("runuser -u worldevents -- worldevents user unblock bob") }, runbooks(t, "backup", "After going back")[0]
	m.eachFailure(script, forgotten, func() {}, func() {
		m.service.Is(401, "GET", servicetest.Plaza, "", alice)
		m.fails("runuser -u worldevents -- worldevents session issue bob", "", "blocked")
	})
}

// A certificate that certbot has renewed is served at once.
func TestCertbotHook(t *testing.T) {
	t.Parallel()
	m := newMachine(t, servicetest.NewPostgresServer(t))
	const day = 24 * time.Hour
	first, renewed := servicetest.NewCertificate(t, day, 90*day), servicetest.NewCertificate(t, 0, 90*day)
	certificates := filepath.Join(m.p.Dir, "tls")
	first.Write(t, certificates)
	own(t, certificates, 0, 0o750)
	for _, name := range []string{"key.pem", "cert.pem"} {
		own(t, filepath.Join(certificates, name), 0, 0o640)
	}
	m.secrets()
	m.settings(m.sqlite(), "TLS=files", "BASE_URL=https://localhost")
	m.p.MustRun("migrate")
	m.start()
	shows := func(want servicetest.Certificate) {
		t.Helper()
		conn := servicetest.Must(tls.Dial("tcp", m.p.Getenv("LISTEN_ADDR"), servicetest.Trusting("localhost", first, renewed)))(t)
		defer conn.Close()
		servicetest.Is(t, conn.ConnectionState().PeerCertificates[0].SerialNumber.String(), want.Serial, "the certificate shown")
	}
	hooks, lineage := folder(t), folder(t)
	servicetest.WriteSecret(t, filepath.Join(lineage, "privkey.pem"), string(renewed.Key))
	servicetest.WriteSecret(t, filepath.Join(lineage, "fullchain.pem"), string(renewed.Cert))
	m.replacing("/etc/letsencrypt/renewal-hooks/deploy", hooks)
	m.run(runbooks(t, "tls-and-proxies", "TLS")[1])
	shows(first)
	m.run("RENEWED_LINEAGE=" + lineage + " " + hooks + "/worldevents")
	shows(renewed)
	m.mode(filepath.Join(certificates, "key.pem"), "0 -rw-r-----")
}

// Root's side of a runbook cannot reach what the service's user has.
func TestRootsSideHasNoRights(t *testing.T) {
	t.Parallel()
	if !root() {
		servicetest.Missing(t, "needs root")
	}
	m := newMachine(t, servicetest.NewPostgresServer(t))
	m.run("runuser -u worldevents -- touch /var/lib/worldevents/x")
	for _, step := range []string{"ls /var/lib/worldevents", "cp -p /var/lib/worldevents/x .", "echo y >/var/lib/worldevents/x", "rm -f /var/lib/worldevents/x",
		"mkdir /var/lib/worldevents/y", "chmod 755 /var/lib/worldevents", "chown 0 /var/lib/worldevents/x", "systemctl show && cat /var/lib/worldevents/x"} {
		m.fails(step, "", "")
	}
	m.run("systemctl start worldevents-backup || true\nrunuser -u worldevents -- ls /var/lib/worldevents")
	m.fails("runuser -u worldevents -- touch /etc/worldevents/z", "", "")
}
