package operating

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"worldevents/tests/servicetest"
)

// Keys of these tests, in hexadecimal as openssl prints them.
const (
	keyA = "1f0e9d8c7b6a59483726150493a2b1c0d1e2f3041526374859607182a3b4c5d6"
	keyB = "2a4c6e80b1d3f597c8e0a2d4f6081b3d5f7193a5c7e9fb0d2e4f60718293a4b5"
	keyC = "3b5d7f91c2e4a608d9f1b3e5071a2c4e60829ab4d6f80a1c3d5e7f8091a2b3c4"
)

// writeSecret replaces a file in one step, as OPERATING.md says.
func writeSecret(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// Each file of a secret that cannot be used is one line that names the setting and the path, and shows nothing of what is
// in it. All commands refuse it alike, together with what else is wrong.
func TestSecretFileErrors(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-hunter2-hunter2-hunter2-hunter2"
	p := servicetest.NewProgram(t, "JWT_SECRET=", "DATABASE_URL=", "OIDC_ISSUER=https://login.example.org", "OIDC_CLIENT_ID=worldevents")
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "secret")
		writeSecret(t, path, text)
		return path
	}
	unreadable, why := file(secret), "permission denied"
	if os.Geteuid() == 0 {
		unreadable, why = "/proc/self/mem", "input/output error"
	} else if err := os.Chmod(unreadable, 0); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct{ path, want string }{
		"missing":               {filepath.Join(t.TempDir(), "none"), "no such file or directory"},
		"missing folder":        {"none/none", "no such file or directory"},
		"below a file":          {file(secret) + "/x", "not a directory"},
		"a folder":              {t.TempDir(), "is a directory"},
		"unreadable":            {unreadable, why},
		"a pipe":                {pipe, "is not a regular file"},
		"a device":              {"/dev/null", "is not a regular file"},
		"empty":                 {file(""), "is empty"},
		"an empty line":         {file("\n"), "is empty"},
		"an empty line of CRLF": {file("\r\n"), "is empty"},
		"too large":             {file(strings.Repeat(secret, 1700)), "is larger than 65536 bytes"},
		"NUL":                   {file(secret + "\x00"), "has a NUL character"},
		"not UTF-8":             {file(secret + "\xff"), "is not UTF-8"},
		"UTF-16":                {file("h\x00u\x00n\x00"), "has a NUL character"},
		"two lines":             {file(secret + "\n" + secret + "\n"), "must be one line"},
		"a blank line behind":   {file(secret + "\n\n"), "must be one line"},
		"CR alone":              {file(secret + "\r"), "must be one line"},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			for _, setting := range []string{"JWT_SECRET_FILE", "DATABASE_URL_FILE", "OIDC_CLIENT_SECRET_FILE"} {
				_, stderr, status := p.For(t).With("JWT_SECRET="+keyA).With(strings.Replace(setting, "JWT_SECRET_FILE", "JWT_SECRET", 1)+"=").
					With(setting+"="+test.path, "DOCS=perhaps").Run("migrate")
				stderr = strings.ReplaceAll(stderr, `\"`, `"`) // as the log quotes them
				if want := fmt.Sprintf("%s: %q: %s", setting, test.path, test.want); status != 1 || !servicetest.OneLine(stderr, want) || !strings.Contains(stderr, "DOCS: ") {
					t.Errorf("%d %q, want %q", status, stderr, want)
				}
				if strings.Contains(stderr, "hunter2") || strings.Contains(stderr, "JWT_SECRET: ") {
					t.Errorf("says too much: %q", stderr)
				}
			}
		})
	}
	// What is in the file is held to the rules of the setting.
	for setting, texts := range map[string][]string{
		"JWT_SECRET_FILE":   {"short", strings.Repeat("x", 64), keyA + "," + keyA, keyA + ",", "your-256-bit-secret-" + secret, ","},
		"DATABASE_URL_FILE": {"worldevents.db", "sqlite:", "mysql://u:" + secret + "@h/d", "postgres://u:" + secret + "@h:port/db"},
	} {
		for _, text := range texts {
			_, stderr, status := p.With("JWT_SECRET="+keyA).With(strings.TrimSuffix(setting, "_FILE")+"=", setting+"="+file(text)).Run("migrate")
			if status != 1 || !servicetest.OneLine(stderr, setting+": ") || strings.Contains(stderr, "hunter2") || strings.Contains(stderr, keyA) || strings.Contains(stderr, "xxxx") {
				t.Errorf("%q: %d %q", text, status, stderr)
			}
		}
	}
	// A secret in the place of the path is not shown, nor by check.
	for setting, text := range map[string]string{"JWT_SECRET_FILE": keyA, "DATABASE_URL_FILE": "postgres://u:" + secret + "@h/d", "OIDC_CLIENT_SECRET_FILE": secret} {
		for _, command := range []string{"migrate", "check"} {
			stdout, stderr, status := p.With(setting + "=" + text).Run(command)
			if status != 1 || !strings.Contains(stderr, setting+": must be the path of a file") || strings.Contains(stdout+stderr, text) || strings.Contains(stdout+stderr, "hunter2") {
				t.Errorf("%s: %d %q %q", command, status, stderr, stdout)
			}
		}
	}
}

// A secret and its file together are refused, whichever of them is in .env: neither is quietly without effect. An empty real
// variable takes that of .env away.
func TestSecretAndItsFile(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t)
	writeSecret(t, filepath.Join(p.Dir, "key"), keyA)
	writeSecret(t, filepath.Join(p.Dir, "url"), "sqlite:worldevents.db")
	for _, test := range []struct {
		dotEnv string
		env    []string
		want   string // "" for none
	}{
		{"", []string{"JWT_SECRET=" + keyA, "JWT_SECRET_FILE=key"}, "JWT_SECRET_FILE: is set together with JWT_SECRET"},
		{"JWT_SECRET=" + keyA, []string{"JWT_SECRET_FILE=key"}, "JWT_SECRET_FILE: is set together with JWT_SECRET"},
		{"JWT_SECRET_FILE=key", []string{"JWT_SECRET=" + keyA}, "JWT_SECRET_FILE: is set together with JWT_SECRET"},
		{"JWT_SECRET=" + keyA + "\nJWT_SECRET_FILE=key", nil, "JWT_SECRET_FILE: is set together with JWT_SECRET"},
		{"JWT_SECRET=" + keyA, []string{"JWT_SECRET=", "JWT_SECRET_FILE=key"}, ""},
		{"JWT_SECRET_FILE=none", []string{"JWT_SECRET_FILE=", "JWT_SECRET=" + keyA}, ""},
		{"JWT_SECRET_FILE=none", []string{"JWT_SECRET_FILE=key"}, ""},
		{"JWT_SECRET_FILE=key", nil, ""},
		{"JWT_SECRET=" + keyA + "\nDATABASE_URL=sqlite:worldevents.db", []string{"DATABASE_URL_FILE=url"}, "DATABASE_URL_FILE: is set together with DATABASE_URL"},
		{"JWT_SECRET=" + keyA, []string{"OIDC_CLIENT_SECRET=" + keyB, "OIDC_CLIENT_SECRET_FILE=key", "OIDC_ISSUER=https://login.example.org", "OIDC_CLIENT_ID=x"}, "OIDC_CLIENT_SECRET_FILE: is set together with OIDC_CLIENT_SECRET"},
	} {
		writeDotEnv(t, p, test.dotEnv)
		p.Env = append([]string{"APP_ENV=development"}, test.env...)
		_, stderr, status := p.Run("migrate")
		if status != map[bool]int{true: 0, false: 1}[test.want == ""] || !strings.Contains(stderr, test.want) || strings.Contains(stderr, keyA) || strings.Contains(stderr, keyB) {
			t.Errorf("%q, %q: %d %q", test.dotEnv, test.env, status, stderr)
		}
	}
}

// Files are found as Kubernetes, systemd and Docker mount them, with any line ending, and by every command.
func TestSecretFileMounts(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t, "JWT_SECRET="+keyA)
	s := p.ServeReady()
	mounts := t.TempDir()
	mount := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(mounts, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := func(to, name string) {
		if err := os.Symlink(to, filepath.Join(mounts, name)); err != nil {
			t.Fatal(err)
		}
	}
	mount("k8s/..2030_01_01/jwt", keyA, 0o644)
	mount("k8s/..2030_01_01/url", "sqlite:worldevents.db", 0o644)
	link("..2030_01_01", "k8s/..data")
	link("..data/jwt", "k8s/jwt")
	link("..data/url", "k8s/url")
	for i, files := range [][2]string{
		{filepath.Join(mounts, "k8s/jwt"), filepath.Join(mounts, "k8s/url")},
		{mount("credentials/jwt", keyA+"\n", 0o400), mount("credentials/url", "sqlite:worldevents.db\n", 0o400)},
		{mount("secrets/jwt", keyA+"\r\n", 0o444), mount("secrets/url", "sqlite:worldevents.db\r\n", 0o444)},
		{mount("several", keyA+", "+keyB+"\n", 0o600), mount("url", "sqlite:"+p.Dir+"/worldevents.db\n", 0o600)},
	} {
		from := p.With("JWT_SECRET=", "DATABASE_URL=", "JWT_SECRET_FILE="+files[0], "DATABASE_URL_FILE="+files[1])
		production := from.With("APP_ENV=production", "BASE_URL=https://example.org")
		production.MustRun("migrate")
		name := fmt.Sprint("alice", i)
		production.MustRun("user", "add", name)
		cookies := strings.TrimSpace(from.MustRun("session", "issue", name))
		if status, body := s.Do("GET", servicetest.Plaza, "", cookies); status != 200 {
			t.Errorf("%q: %d %s", files, status, body)
		}
		production.MustRun("event", "list", "--world", "plaza")
		if _, stderr, status := production.Run("copy", "--to", fmt.Sprintf("sqlite:copy%d.db", i)); status != 0 {
			t.Errorf("copy: %d %s", status, stderr)
		}
		var checked struct {
			OK       bool
			Settings map[string]string
		}
		stdout, stderr, _ := production.Run("check")
		if err := json.Unmarshal([]byte(stdout), &checked); err != nil || !checked.OK || strings.Contains(stdout+stderr, keyA) {
			t.Errorf("check: %v, %s, %s", err, stdout, stderr)
		}
		if got := checked.Settings; got["JWT_SECRET_FILE"] != files[0] || !strings.HasPrefix(got["JWT_SECRET"], "xxxxx") || got["DATABASE_URL_FILE"] != files[1] || !strings.HasPrefix(got["DATABASE_URL"], "sqlite:") {
			t.Errorf("check: %v", got)
		}
	}
}

// Whoever can write the file of the keys signs in as anybody. Production refuses that, as it does for .env, and development warns.
func TestSecretFileThatOthersCanWrite(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t, "JWT_SECRET=", "JWT_SECRET_FILE=key", "LOG_FORMAT=json")
	key := filepath.Join(p.Dir, "key")
	production := p.With("APP_ENV=production", "BASE_URL=https://example.org")
	for mode, exposed := range map[os.FileMode]bool{0o600: false, 0o644: false, 0o444: false, 0o620: true, 0o602: true} {
		writeSecret(t, key, keyA)
		if err := os.Chmod(key, mode); err != nil {
			t.Fatal(err)
		}
		_, stderr, status := production.Run("migrate")
		if (status == 1 && servicetest.OneLine(stderr, `JWT_SECRET_FILE: \"key\": its mode lets others write it`)) != exposed || status == 0 == exposed {
			t.Errorf("%o: %d %q", mode, status, stderr)
		}
		if _, stderr, _ := p.Run("check"); strings.Contains(stderr, "warning: settings: JWT_SECRET_FILE: ") != exposed {
			t.Errorf("%o: %q", mode, stderr)
		}
	}
	if err := os.Chown(key, 65534, -1); err != nil {
		servicetest.Missing(t, "needs root: %v", err)
	}
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	production.MustRun("migrate") // a container engine mounts files of the host's users
}
