package runbooks

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// canary is in files of root's alone.
const canary = "nobody but root may read this"

// moment is when all runbooks of this test are pasted: whoever plants links may guess it.
const moment = "20300101000000"

// played are commands that a runbook must not really run. What they say lets it go on to its last step.
var played = map[string]string{
	"curl": "", "docker": "", "createdb": "", "pg_dump": "", "pg_restore": "", "pg_upgradecluster": "", "sleep": "", "journalctl": "",
	"date":      "case $* in *T%H%M%SZ) echo 20300101T000000Z ;; *) echo " + moment + " ;; esac\n",
	"systemctl": "[ \"$1\" != show ] || cat \"$WORLD/pid\"\n",
	"psql":      "cat >/dev/null\ncase $* in *wal_level*) echo logical ;; *srsubstate* | *flush_lsn*) echo t ;; *) echo 0 ;; esac\n",
	"worldevents": `echo '{"rows":{}}' "$DATABASE_URL"
cat .env
case $* in *--hold*) exec env PATH=/usr/bin:/bin sleep 60 ;; "copy --to sqlite:"*) echo "$DATABASE_URL" >"${3#sqlite:}" ;; esac
`,
}

// real are the commands that a runbook may run as they are.
var real = strings.Fields("awk cat chmod chown cp cut env expr find grep head kill ls mkdir mktemp mv openssl printf rm sed seq setpriv setsid sh sha256sum sort tail test touch tr wc xargs")

// hostile is a machine on which the service's user has prepared its folder for root.
type hostile struct {
	t    *testing.T
	bin  string
	env  []string
	key  string
	base string // has all that is not below state, which is in it, too
}

func newHostile(t *testing.T) *hostile {
	t.Helper()
	h := &hostile{t: t, bin: folder(t)}
	world := folder(t)
	for name, text := range standIns {
		servicetest.WriteExecutable(t, filepath.Join(h.bin, name), "#!/bin/sh\n"+text)
	}
	for name, text := range played {
		servicetest.WriteExecutable(t, filepath.Join(h.bin, name), "#!/bin/sh\n"+text)
	}
	servicetest.WriteExecutable(t, filepath.Join(h.bin, "install"), "#!/bin/sh\n"+strings.Replace(standIns["install"], "PATH=${PATH#*:}\n", "PATH=/usr/bin:/bin\n", 1))
	for _, name := range real {
		servicetest.NoError(t, os.Symlink(servicetest.Tool(t, name), filepath.Join(h.bin, name)))
	}
	h.env = []string{"PATH=" + h.bin, "WORLD=" + world, "STEPPED=" + h.bin, fmt.Sprint("SERVICE=", serviceID), "AS_SERVICE=" + asService(false),
		"AS_CAPABLE=" + asService(true), "NEW=postgres://127.0.0.1:1", "RENEWED_LINEAGE=" + world}
	for _, name := range []string{"privkey.pem", "fullchain.pem"} {
		servicetest.WriteSecret(t, filepath.Join(world, name), "renewed\n")
	}
	key := servicetest.Must(exec.Command(servicetest.Tool(t, "openssl"), "genpkey", "-algorithm", "ed25519").Output())(t)
	h.key = string(key)
	// A service has its database open.
	open := exec.Command("sh", "-c", "cd "+own(t, folder(t), serviceID, 0o700)+" && exec "+asService(true)+" sh -c 'exec sleep 600 3<>worldevents.db 4<>worldevents.db-wal'")
	servicetest.NoError(t, open.Start())
	t.Cleanup(func() { open.Process.Kill(); open.Wait() })
	servicetest.WriteSecret(t, filepath.Join(world, "pid"), fmt.Sprintln(open.Process.Pid))
	return h
}

// odd are names that shells and terminals may take for something else.
var odd = []string{"-rf", "a b", "a\nb", "it's", `"`, "$(touch pwned)", "`touch pwned`", "*", "?[a-z]", "\x1b]0;pwned\x07", "backups/-rf", "backups/$(touch pwned)", "backups/a\nb"}

// names are those below state that a script may come across.
func names(script string) (all []string) {
	all = append(strings.Fields(`.env .env.new secrets/jwt secrets/jwt.new secrets/jwt.pem secrets/url secrets/oidc tls/key.pem tls/cert.pem worldevents.db worldevents.db-wal
		worldevents.db-shm backups/20300101T000000Z.db offsite removed-$now/worldevents.db removed-$now/worldevents.db-wal removed-$now/replaced/worldevents.db`), odd...)
	for _, kind := range []string{"restore", "growing", "move"} {
		all = append(all, "before-"+kind+"-$now", "before-"+kind+"-$now/copied", "before-"+kind+"-$now/.env", "before-"+kind+"-$now/audit.log", "before-"+kind+"-$now/found")
	}
	all = append(all, regexp.MustCompile(`[\w.$-]*[./][\w./$-]*\w`).FindAllString(script, -1)...)
	for n, name := range all {
		name = strings.ReplaceAll(strings.ReplaceAll(name, "$now", moment), "/var/lib/worldevents", "")
		all[n] = strings.TrimPrefix(filepath.Clean("/"+name), "/")
	}
	slices.Sort(all)
	slices.Reverse(all) // what is in a folder comes before it
	return slices.DeleteFunc(slices.Compact(all), func(name string) bool { return name == "" })
}

// prepare makes the machine for a script. kind says what is below state in the place of each name.
func (h *hostile) prepare(script, kind string) {
	h.t.Helper()
	h.base = folder(h.t)
	state, secret := filepath.Join(h.base, "state"), filepath.Join(h.base, "canary")
	try := func(err error) {
		h.t.Helper()
		servicetest.NoError(h.t, err)
	}
	put := func(path, text string) {
		h.t.Helper()
		try(os.MkdirAll(filepath.Dir(path), 0o755))
		try(os.WriteFile(path, []byte(text), 0o600))
	}
	for name, text := range map[string]string{
		".env": "DATABASE_URL=sqlite:" + state + "/worldevents.db\nJWT_SECRET_FILE=secrets/jwt\n", "secrets/jwt": keyA + "\n", "new-database": "postgres://127.0.0.1:1/new\n",
		"secrets/url": "postgres://a:b@127.0.0.1:1/worldevents\n", "secrets/jwt.pem": h.key, "secrets/jwt.private": h.key,
		"worldevents-1.1.0-linux-amd64": "", "worldevents.service": "", "worldevents-backup.service": "", "worldevents-backup.timer": "",
	} {
		put(filepath.Join(h.base, "etc", name), text)
		own(h.t, filepath.Join(h.base, "etc", name), 0, 0o640)
	}
	for _, name := range []string{"etc", "etc/secrets"} {
		own(h.t, filepath.Join(h.base, name), 0, 0o750)
	}
	for _, name := range []string{"state", "programs", "units", "hooks", "postgresql"} {
		try(os.Mkdir(filepath.Join(h.base, name), 0o755))
	}
	all := names(script)
	put(filepath.Join(secret, "file"), canary)
	for _, name := range all { // a link to the folder leads to files of the same names
		for rest := name; rest != "" && kind == "folders"; _, rest, _ = strings.Cut(rest, "/") {
			path := filepath.Join(secret, rest)
			if os.MkdirAll(filepath.Dir(path), 0o700) == nil { // else it is a file already
				os.WriteFile(path, []byte(canary), 0o600)
			}
		}
	}
	for n, name := range all {
		path := filepath.Join(state, name)
		if first, _, _ := strings.Cut(name, "/"); kind == "folders" {
			os.Symlink(secret, filepath.Join(state, first))
			continue
		} else if kind == "programs" && strings.Contains(name, moment) {
			continue // so that mkdir makes it
		}
		os.MkdirAll(filepath.Dir(path), 0o755)
		switch kind {
		case "files":
			os.Symlink(filepath.Join(secret, "file"), path)
		case "nothing":
			os.Symlink(filepath.Join(secret, fmt.Sprint("new", n)), path)
		case "programs":
			os.WriteFile(path, []byte("#!/bin/sh\n[ \"$(/usr/bin/id -u)\" != 0 ] || touch "+h.base+"/pwned\n"), 0o755)
		}
	}
	if kind == "files" { // and hard links, where the kernel lets one make them
		exec.Command("setpriv", fmt.Sprint("--reuid=", serviceID), "--clear-groups", "ln", "-t", state, filepath.Join(secret, "file")).Run()
	}
	if kind != "folders" {
		put(filepath.Join(state, "backups/20190101T000000Z.db"), "an older one")
	}
	try(filepath.WalkDir(state, func(path string, _ fs.DirEntry, err error) error {
		if info, err := os.Lstat(path); err != nil || info.Sys().(*syscall.Stat_t).Nlink > 1 && info.Mode().IsRegular() {
			return err
		}
		return os.Lchown(path, serviceID, serviceID)
	}))
	own(h.t, state, serviceID, 0o700)
}

// outside is all that is not below state: its owner, mode, time and text.
func (h *hostile) outside() (all map[string]string) {
	h.t.Helper()
	all = map[string]string{}
	err := filepath.WalkDir(h.base, func(path string, entry fs.DirEntry, err error) error {
		info, fault := os.Lstat(path)
		if err != nil || fault != nil {
			return fmt.Errorf("%v, %v", err, fault)
		}
		is := info.Sys().(*syscall.Stat_t)
		text := fmt.Sprint(is.Uid, " ", is.Gid, " ", info.Mode(), " ")
		if info.Mode().IsRegular() {
			content, _ := os.ReadFile(path)
			text += string(content)
		}
		if name := strings.TrimPrefix(path, h.base); strings.HasPrefix(name, "/canary") {
			all[name] = text + info.ModTime().String()
		} else if name != "" {
			all[name] = text
		}
		return nil
	})
	servicetest.NoError(h.t, err)
	return all
}

// harm runs a script as root with all its rights, and says what it has done that only its folder may suffer.
func (h *hostile) harm(script, kind, in string) (harm []string) {
	h.t.Helper()
	h.prepare(script, kind)
	before := h.outside()
	at := func(name string) string { return filepath.Join(h.base, name) }
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, "sh", "-c", strings.NewReplacer("/etc/worldevents", at("etc"), "/var/lib/worldevents", at("state"), "/usr/local/bin", at("programs"),
		"/etc/systemd/system", at("units"), "/etc/letsencrypt/renewal-hooks/deploy", at("hooks"), "/etc/postgresql", at("postgresql"), "seq 30", "seq 2").Replace(script))
	command.Dir, command.Env, command.SysProcAttr = at(in), h.env, &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = time.Second
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	command.Run()
	switch said := output.String(); {
	case ctx.Err() != nil:
		harm = append(harm, "it has no end: "+said)
	case strings.Contains(said, ": not found") || strings.Contains(said, "command not found"):
		harm = append(harm, "this test does not know a command: "+said)
	case strings.Contains(said, canary):
		harm = append(harm, "it shows what only root may read")
	}
	after := h.outside()
	for name, was := range before {
		if strings.HasPrefix(name, "/canary") && after[name] != was {
			harm = append(harm, fmt.Sprintf("%q is %q, and was %q", name, after[name], was))
		}
	}
	for name, is := range after {
		owner, planted := strings.HasPrefix(is, "0 "), strings.Contains(is, canary)
		switch {
		case strings.HasPrefix(name, "/canary"):
			if _, was := before[name]; !was {
				harm = append(harm, fmt.Sprintf("%q is new", name))
			}
		case name == "/state" || strings.HasPrefix(name, "/state/"):
			if owner && !planted {
				harm = append(harm, fmt.Sprintf("root writes %q", name))
			}
		case !owner || planted || strings.Contains(name, "pwned") || strings.Contains(is, " L"):
			harm = append(harm, fmt.Sprintf("%q is %q", name, is))
		}
	}
	slices.Sort(harm)
	return harm
}

// pasted are the scripts that root or systemd runs, by where they are: runbooks, the hooks that they write, and what units start.
func pasted(t *testing.T) (scripts map[string]string) {
	t.Helper()
	scripts = map[string]string{}
	pages, _ := filepath.Glob(filepath.Join(servicetest.Root(t), "docs/operate/*.md"))
	for _, page := range pages {
		text := servicetest.Shipped(t, "docs/operate/"+filepath.Base(page))
		for _, block := range regexp.MustCompile("(?sm)^```sh\n(\\( set -eu\n.*?)^```$").FindAllStringSubmatchIndex(text, -1) {
			scripts[fmt.Sprintf("%s:%d", filepath.Base(page), strings.Count(text[:block[2]], "\n"))] = text[block[2]:block[3]]
		}
		for n, hook := range regexp.MustCompile("(?sm)<<'?END'?\n(#!/bin/sh.*?)^END$").FindAllStringSubmatch(text, -1) {
			scripts[fmt.Sprint(filepath.Base(page), " hook ", n)] = "set -eu\n" + hook[1]
		}
	}
	units, _ := filepath.Glob(filepath.Join(servicetest.Root(t), "deploy/*.service"))
	for _, unit := range units {
		text, script := servicetest.Shipped(t, "deploy/"+filepath.Base(unit)), ""
		user := regexp.MustCompile(`(?m)^User=worldevents$`).MatchString(text)
		for _, line := range regexp.MustCompile(`(?m)^(Environment|Exec\w+)=([-@:+!|]*)(.*)$`).FindAllStringSubmatch(text, -1) {
			what := strings.NewReplacer("$$", "$", "%%", "%", "/usr/local/bin/", "").Replace(line[3])
			switch {
			case line[1] == "Environment":
				script += "export " + what + "\n"
			case user && !strings.ContainsAny(line[2], "+!"):
				script += "runuser -u worldevents -- " + what + "\n"
			default:
				script += what + "\n"
			}
		}
		scripts[filepath.Base(unit)] = "cd /etc/worldevents\n" + script
	}
	if len(scripts) < 25 {
		t.Fatalf("there are only %d", len(scripts))
	}
	return scripts
}

// Whoever has become the service's user can leave links below /var/lib/worldevents that lead anywhere, programs, and names that shells take for
// something else. Nothing that root pastes, and nothing that systemd starts, does anything with them but by the service's own rights.
func TestRunbooksTouchNothingOfTheServiceAsRoot(t *testing.T) {
	t.Parallel()
	if !root() {
		servicetest.Missing(t, "needs root")
	}
	kinds := []string{"files", "folders", "nothing", "programs"}
	known := regexp.MustCompile(`^/(etc/(worldevents|systemd/system|letsencrypt/renewal-hooks/deploy|postgresql)|var/lib/worldevents|usr/(local/bin|sbin/nologin)|dev/(null|stdin)|proc|bin)(/|$)`)
	path := regexp.MustCompile(`(?m)(?:^|[ "'=(<>:])(/[a-z]{3}[\w./-]*)`)
	for name, script := range pasted(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, named := range path.FindAllStringSubmatch(regexp.MustCompile(`https?://\S+|\$\w+/\S+`).ReplaceAllString(script, ""), -1) {
				if !known.MatchString(named[1]) {
					t.Fatalf("this test must not run what names %s", named[1])
				}
			}
			h := newHostile(t)
			for _, kind := range kinds {
				for _, harm := range h.harm(script, kind, "etc") {
					t.Errorf("%s: %s", kind, harm)
				}
			}
		})
	}
	// The test notices what such a folder does to root.
	t.Run("control", func(t *testing.T) {
		t.Parallel()
		h := newHostile(t)
		for script, kinds := range map[string]string{
			"cp -p .env .env.new; sed s/a/b/ .env >.env.new":                                        "files nothing",
			"cat /var/lib/worldevents/worldevents.db":                                               "files",
			"cp /var/lib/worldevents/secrets/jwt /etc/worldevents/secrets/jwt":                      "files folders",
			"chown 61234 /var/lib/worldevents/tls/key.pem":                                          "files folders",
			"[ ! -x /var/lib/worldevents/offsite ] || /var/lib/worldevents/offsite":                 "programs",
			"mkdir -p /var/lib/worldevents/tls; echo x >/var/lib/worldevents/tls/key.pem":           "files folders nothing",
			"new=x; mkdir \"/var/lib/worldevents/backups/$new\"":                                    "files folders nothing programs",
			"cd /var/lib/worldevents/backups; for file in *; do eval : \"$file\"; done":             "programs",
			"install -m 600 -o worldevents /dev/null /var/lib/worldevents/removed-x/worldevents.db": "folders",
		} {
			for _, kind := range strings.Fields(kinds) {
				if harm := h.harm(script, kind, "state"); len(harm) == 0 {
					t.Errorf("it does not notice %s with %s", script, kind)
				}
			}
		}
	})
}
