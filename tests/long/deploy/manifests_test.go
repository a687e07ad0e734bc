package deploy

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"worldevents/config"
	"worldevents/config/build"
	"worldevents/tests/servicetest"
)

// probe is what Kubernetes asks a container, and how often.
type probe struct {
	HTTPGet                                         struct{ Path, Port string }
	PeriodSeconds, TimeoutSeconds, FailureThreshold int
}

// container is what tests/long/deploy/manifests prints of one.
type container struct {
	File, Name, Image, Dir, Log string
	Args, Ports, Profiles       []string
	Env, Mounts                 map[string]string
	ReadOnly, Suspended         bool
	User                        int64
	Grace                       time.Duration
	Probes                      map[string]probe
}

// manifests reads deploy/compose.yaml and deploy/kubernetes, but for the container of the database.
func manifests(t *testing.T) []container {
	t.Helper()
	files, _ := filepath.Glob(projectPath(t, "deploy/kubernetes/*"))
	all := readManifests(t, append(files, projectPath(t, "deploy/compose.yaml"))...)
	if len(all) < 8 {
		t.Fatalf("%+v", all)
	}
	return slices.DeleteFunc(all, func(c container) bool { return c.Image == "postgres:18" })
}

// readManifests reads files as Compose and Kubernetes do.
func readManifests(t *testing.T, files ...string) (all []container) {
	t.Helper()
	out := output(t, projectPath(t, "tests/long/deploy/manifests"), "go", append([]string{"run", "."}, files...)...)
	servicetest.NoError(t, json.Unmarshal([]byte(out), &all))
	return all
}

// Compose and Kubernetes understand every line. All that is set is a setting of this version's image, which has as little as it needs.
func TestManifests(t *testing.T) {
	t.Parallel()
	settings := new(config.Config).Settings()
	for _, c := range manifests(t) {
		of := c.File + " " + c.Name
		for name := range c.Env {
			if _, is := settings[name]; !is {
				t.Errorf("%s: %s is no setting", of, name)
			}
		}
		if c.Image != "worldevents:"+build.Version || !c.ReadOnly || c.File != "compose.yaml" && c.User != 65532 {
			t.Errorf("%s: %+v", of, c)
		}
		if want := slices.Contains(c.Args, "prune"); c.Suspended != want {
			t.Errorf("%s: suspended is %t", of, c.Suspended)
		}
		if len(c.Args) > 0 {
			continue
		}
		stop := cmp.Or(c.Env["SHUTDOWN_TIMEOUT"], "10s")
		if took, err := time.ParseDuration(stop); err != nil || c.Grace < took+5*time.Second {
			t.Errorf("%s is killed after %v, and ends within %s", of, c.Grace, stop)
		}
		if c.File == "compose.yaml" {
			continue
		}
		// A database that is away takes no pod from the Service, and restarts none. A new pod waits for an hour.
		for name, want := range map[string]probe{"startup": {PeriodSeconds: 5, FailureThreshold: 720}, "readiness": {PeriodSeconds: 10, FailureThreshold: 3}, "liveness": {PeriodSeconds: 10, FailureThreshold: 3}} {
			want.TimeoutSeconds, want.HTTPGet.Port, want.HTTPGet.Path = 3, "admin", "/livez"
			if name == "startup" {
				want.HTTPGet.Path = "/readyz"
			}
			if c.Probes[name] != want {
				t.Errorf("%s: the probe of %s is %+v", of, name, c.Probes[name])
			}
		}
	}
}

// Compose runs PostgreSQL for its profile alone, and logs to the journal whatever the service's image runs. One line more puts it behind a proxy.
func TestComposeFile(t *testing.T) {
	t.Parallel()
	text := servicetest.Shipped(t, "deploy/compose.yaml")
	proxied := filepath.Join(t.TempDir(), "compose.yaml")
	write(t, proxied, strings.Replace(text, "\n#x-", "\nx-", 1))
	if lines := regexp.MustCompile(`(?m)^\s*#\S.*`).FindAllString(text, -1); len(lines) != 1 {
		t.Errorf("commented out are %q", lines)
	}
	for file, want := range map[string]struct{ ports, listens, tls string }{
		projectPath(t, "deploy/compose.yaml"): {"80:8080 443:8443", ":8080 :8443", "acme"},
		proxied:                               {"127.0.0.1:8080:8443", " :8443", ""},
	} {
		byName := make(map[string]container)
		for _, c := range readManifests(t, file) {
			byName[c.Name] = c
			if c.Name != "postgres" && (c.Log != "journald worldevents" || c.Env["HTTP_ADDR"]+" "+c.Env["LISTEN_ADDR"] != want.listens || c.Env["TLS"] != want.tls) {
				t.Errorf("%+v", c)
			}
		}
		service, postgres, backup := byName["worldevents"], byName["postgres"], byName["backup"]
		if got := strings.Join(service.Ports, " "); got != want.ports || len(postgres.Ports)+len(backup.Ports) > 0 {
			t.Errorf("ports %s of %+v", got, byName)
		}
		if !slices.Equal(service.Profiles, []string{"postgres", "sqlite"}) || !slices.Equal(postgres.Profiles, []string{"postgres"}) || !slices.Equal(backup.Profiles, []string{"backup"}) {
			t.Errorf("profiles of %+v", byName)
		}
	}
}

// start prepares a container with a root of its own, and with addresses of this machine.
func (c container) start(t *testing.T, mounts map[string]string) *servicetest.Program {
	t.Helper()
	if os.Getuid() != 0 {
		servicetest.Missing(t, "only root may imitate a container")
	}
	root := t.TempDir()
	servicetest.NoError(t, os.WriteFile(filepath.Join(root, "worldevents"), []byte(readAll(t, servicetest.Binary(t))), 0o555))
	for at := range c.Mounts {
		servicetest.NoError(t, os.MkdirAll(filepath.Join(root, at), 0o755))
	}
	servicetest.NoError(t, os.MkdirAll(filepath.Join(root, "data"), 0o755))
	p := servicetest.NewProgram(t).At(contained(t, root, "65532:65532", cmp.Or(c.Dir, "/data"), mounts))
	// As the image has it, but for the port.
	admin, port := slices.DeleteFunc(imageEnv(t), func(v string) bool { return !strings.HasPrefix(v, "ADMIN_ADDR=") })[0], strings.TrimPrefix(servicetest.FreeAddress(t), "127.0.0.1")
	p.Env = []string{strings.TrimSuffix(admin, ":9090") + port}
	for name, value := range c.Env {
		p.Env = append(p.Env, name+"="+value)
	}
	p.Env = append(p.Env, "LISTEN_ADDR="+servicetest.FreeAddress(t))
	if c.Env["HTTP_ADDR"] != "" {
		p.Env = append(p.Env, "HTTP_ADDR="+servicetest.FreeAddress(t))
	}
	return p
}

// imageEnv is what the image of a release sets.
func imageEnv(t *testing.T) (env []string) {
	t.Helper()
	for _, found := range regexp.MustCompile(`"([A-Z_]+=[^"]*)"`).FindAllStringSubmatch(readAll(t, projectPath(t, ".ci/artifacts/image.go")), -1) {
		env = append(env, found[1])
	}
	return env
}

// volume makes a folder of the service's user.
func volume(t *testing.T) (path string) {
	t.Helper()
	path = t.TempDir()
	servicetest.NoError(t, os.Chown(path, 65532, 65532))
	return path
}

// secrets mounts files as Kubernetes does: each is a link to a link to a folder that root owns.
func secrets(t *testing.T, files map[string]string) (path string) {
	t.Helper()
	path = t.TempDir()
	for name := range files {
		servicetest.NoError(t, os.Symlink("..data/"+name, filepath.Join(path, name)))
	}
	publish(t, path, "..2030", files)
	return path
}

// publish puts other files in the place of all that secrets has mounted, at once.
func publish(t *testing.T, path, folder string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		write(t, filepath.Join(path, folder, name), text)
	}
	next := filepath.Join(path, "..data_tmp")
	servicetest.NoError(t, os.Symlink(folder, next))
	servicetest.NoError(t, os.Rename(next, filepath.Join(path, "..data")))
}

// expected is what a new service warns of, and one whose only key is replaced: that is its operator's.
var expected = regexp.MustCompile("OIDC_ISSUER is not set|there was no database, and a new one was made|all former keys are gone")

// The processes of the manifests start with their settings, from a root that is read-only and without rights, on both databases.
// They warn of nothing that the manifests could have set, take another secret, share what they keep, and make a backup.
func TestManifestsServe(t *testing.T) {
	all := manifests(t)
	const key = "1f0e9d8c7b6a59483726150493a2b1c0d1e2f3041526374859607182a3b4c5d6"
	servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
		for _, c := range all {
			if len(c.Args) > 0 {
				continue
			}
			postgres := db.Dialect == "postgres"
			mounts := make(map[string]string)
			for at := range c.Mounts {
				mounts[at] = volume(t)
			}
			backups := backup(all, c.File)
			kept := maps.Clone(mounts)
			for at := range backups.Mounts {
				if kept[at] == "" {
					kept[at] = volume(t)
				}
			}
			url := db.URL
			switch {
			case c.File == "compose.yaml":
				if !postgres {
					url = "sqlite:/var/lib/worldevents/worldevents.db"
				}
				write(t, filepath.Join(mounts["/etc/worldevents"], ".env"), "BASE_URL=https://events.example.org\nJWT_SECRET_FILE=secrets/jwt\nDATABASE_URL_FILE=secrets/url\n")
				write(t, filepath.Join(mounts["/etc/worldevents"], "secrets/jwt"), key+"\n")
				write(t, filepath.Join(mounts["/etc/worldevents"], "secrets/url"), url+"\n")
			case postgres != (c.Env["DATABASE_URL"] == ""):
				continue // a manifest of the other database
			default:
				kept["/secrets"] = secrets(t, map[string]string{"jwt": key, "url": url})
				mounts["/secrets"] = kept["/secrets"]
			}
			p := c.start(t, mounts)
			s := p.ServeReady()
			name, _, _ := strings.Cut(c.File, ".")
			p.MustRun("user", "add", name)
			p.MustRun("session", "issue", name)
			p.MustRun("health")
			for name := range strings.SplitSeq(c.Env["ADMIN_HOSTS"], ",") { // by which Prometheus asks
				host := func(r *http.Request) { r.Host = name + ":9090" }
				servicetest.NewBrowser(s.AdminURL, http.DefaultTransport).Do("GET", "/metrics", "", host).Is(t, 200)
			}
			if path := mounts["/secrets"]; path != "" {
				cookies := p.Issue(name)
				s.Is(200, "GET", servicetest.Plaza, "", cookies)
				publish(t, path, "..2031", map[string]string{"jwt": strings.Repeat("a1b2c3d4", 8), "url": url})
				servicetest.Within(t, 40*time.Second, "the key that has gone verifies nothing", func() bool {
					return s.Ask("GET", servicetest.Plaza, "", cookies).Status == 401
				})
				s.Is(200, "GET", servicetest.Plaza, "", p.Issue(name))
			}
			if postgres { // another beside it
				c.start(t, mounts).ServeReady()
			}

			b := backups.start(t, kept)
			if out, stderr, status := b.Run(backups.Args...); status != 0 {
				t.Errorf("backup: %s%s", out, stderr)
			}
			var found []string
			for _, volume := range kept {
				for _, pattern := range []string{"2*Z.db", "backups/2*Z.db"} {
					files, _ := filepath.Glob(filepath.Join(volume, pattern))
					found = append(found, files...)
				}
			}
			if len(found) != 1 {
				t.Errorf("backups: %q", found)
			}

			s.Signal(syscall.SIGTERM)
			servicetest.Is(t, s.Wait(c.Grace), 0, "exit status")
			for line := range strings.Lines(s.Log.String()) {
				if strings.Contains(line, `"WARN"`) && !expected.MatchString(line) {
					t.Errorf("%s warns: %s", c.File, line)
				}
			}
		}
	})
}

// backup is the container of a file that makes one.
func backup(all []container, file string) container {
	return all[slices.IndexFunc(all, func(c container) bool { return c.File == file && len(c.Args) > 0 && c.Args[0] == "copy" })]
}

// The Containerfile builds the same image as a release has, with the Go that is here.
func TestContainerfile(t *testing.T) {
	t.Parallel()
	run := buildah(t)
	goEnv := func(name string) string { return output(t, "", "go", "env", name) }
	base := run("from", "scratch")
	run("config", "--env", "GOMODCACHE=/modules", "--env", "GOCACHE=/cache", "--env", "GOPROXY=off", "--env", "GOTOOLCHAIN=local", base)
	servicetest.NoError(t, os.Mkdir(filepath.Join(run("mount", base), "tmp"), 0o777))
	run("umount", base)
	run("commit", "--quiet", base, "golang:1.26")
	dir := commitCopy(t)
	run("bud", "--isolation", "chroot", "--pull-never", "--format", "docker", "--volume", goEnv("GOROOT")+":/usr/local/go:ro", "--volume", goEnv("GOMODCACHE")+":/modules:ro",
		"--volume", goEnv("GOCACHE")+":/cache", "--file", filepath.Join(dir, "deploy/Containerfile"), "--tag", "worldevents", dir)
	i := unpackImage(t, run, "worldevents")
	testRuns(t, i)
	names := imageEnv(t)
	env := slices.DeleteFunc(i.OCIv1.Config.Env, func(v string) bool { return strings.HasPrefix(v, "PATH=") })
	slices.Sort(env)
	if slices.Sort(names); !slices.Equal(env, names) {
		t.Errorf("the image has %q, that of a release %q", env, names)
	}
}

// The scripts of docs/operate/containers.md that restore and grow do so, step by step, as far as there is no engine: docker runs the
// commands in a container that is imitated.
func TestContainerRunbooks(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	c := all[slices.IndexFunc(all, func(c container) bool { return c.File == "compose.yaml" && c.Name == "worldevents" })]
	db := servicetest.EmptyPostgres(t)
	etc, kept := volume(t), volume(t)
	p := c.start(t, map[string]string{"/etc/worldevents": etc, "/var/lib/worldevents": kept})
	const key = "1f0e9d8c7b6a59483726150493a2b1c0d1e2f3041526374859607182a3b4c5d6"
	write(t, filepath.Join(etc, ".env"), "BASE_URL=https://events.example.org\nJWT_SECRET_FILE=secrets/jwt\nDATABASE_URL=sqlite:/var/lib/worldevents/worldevents.db\n")
	for name, text := range map[string]string{"jwt": key, "url": db.URL, "postgres": "password"} {
		write(t, filepath.Join(etc, "secrets", name), text)
	}
	docker := writeScript(t, "docker", `set -eu
shift
case $1 in
run) case " $* " in *" -T "*) ;; *) exit 1;; esac # a terminal would have stderr as stdout
  shift; while [ "$1" != worldevents ]; do
  case $1 in --env) case $2 in *=*) export "$2";; esac; shift;; esac; shift
  done; shift; exec `+p.Command().Path+` "$@" 2>>"$JOURNAL";;
*) echo "$@" >>"$DONE";;
esac
`)
	// The journal has stderr of all containers as errors, by root's Docker.
	journalctl := writeScript(t, "journalctl", `set -eu
[ "$*" = "--identifier=worldevents _UID=0 PRIORITY=3 --output=cat" ]
cat "$JOURNAL"
`)
	done, journal := docker+".done", journalctl+".journal"
	run := func(script string) {
		t.Helper()
		script = strings.NewReplacer("/var/lib/worldevents/backups |", kept+"/backups |", "postgres://worldevents@postgres/worldevents", db.URL).Replace(script)
		command := exec.Command("sh", "-c", script)
		command.Dir, command.Env = etc, append(p.Env, "PATH="+filepath.Dir(docker)+":"+filepath.Dir(journalctl)+":"+os.Getenv("PATH"), "DONE="+done, "JOURNAL="+journal)
		if out, err := command.CombinedOutput(); err != nil {
			said, _ := os.ReadFile(journal)
			t.Fatalf("%v %s%s\n%s", err, out, said, script)
		}
	}
	scripts := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(servicetest.Shipped(t, "docs/operate/containers.md"), -1)
	restore, grow := scripts[len(scripts)-2][1], scripts[len(scripts)-1][1]

	p.MustRun("migrate")
	p.MustRun("user", "add", "alice")
	p.MustRun("user", "add", "mallory")
	p.Run(backup(all, "compose.yaml").Args...)
	p.MustRun("user", "add", "lost")
	run("docker compose run --rm -T worldevents user block mallory")
	run(restore)
	if list := p.MustRun("user", "list"); strings.Contains(list, "lost") || !strings.Contains(list, "alice") {
		t.Errorf("after the restore: %s", list)
	}
	p.Fails("blocked", "session", "issue", "mallory") // since the backup
	run(grow)
	if !strings.Contains(readAll(t, filepath.Join(etc, ".env")), "DATABASE_URL_FILE=secrets/url") || !strings.Contains(p.MustRun("user", "list"), "alice") {
		t.Error("the service is not on PostgreSQL")
	}
	servicetest.Is(t, readAll(t, done), "stop worldevents\nup --detach worldevents\nup --detach postgres\nstop worldevents\nup --detach worldevents\n", "docker compose")
}
