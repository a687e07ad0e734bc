package operating

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"worldevents/tests/servicetest"
)

// Keys of these tests, in hexadecimal as openssl prints them.
const (
	keyA = "1f0e9d8c7b6a59483726150493a2b1c0d1e2f3041526374859607182a3b4c5d6"
	keyB = "2a4c6e80b1d3f597c8e0a2d4f6081b3d5f7193a5c7e9fb0d2e4f60718293a4b5"
	keyC = "3b5d7f91c2e4a608d9f1b3e5071a2c4e60829ab4d6f80a1c3d5e7f8091a2b3c4"
)

// Every command finds the secrets in files, as Kubernetes mounts them. Package config holds what such files may be.
func TestSecretFiles(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t, "JWT_SECRET="+keyA)
	s := p.ServeReady()
	mounts := t.TempDir()
	if err := errors.Join(
		os.Mkdir(mounts+"/..2030_01_01", 0o755), os.Symlink("..2030_01_01", mounts+"/..data"),
		os.WriteFile(mounts+"/..2030_01_01/jwt", []byte(keyA), 0o644), os.Symlink("..data/jwt", mounts+"/jwt"),
		os.WriteFile(mounts+"/..2030_01_01/url", []byte("sqlite:worldevents.db\n"), 0o644), os.Symlink("..data/url", mounts+"/url"),
	); err != nil {
		t.Fatal(err)
	}
	from := p.With("JWT_SECRET=", "DATABASE_URL=", "JWT_SECRET_FILE="+mounts+"/jwt", "DATABASE_URL_FILE="+mounts+"/url")
	production := from.With("APP_ENV=production", "BASE_URL=https://example.org")
	production.MustRun("migrate")
	production.MustRun("user", "add", "alice")
	cookies := from.Issue("alice")
	s.Is(200, "GET", servicetest.Plaza, "", cookies)
	production.MustRun("event", "list", "--world", "plaza")
	if _, stderr, status := production.Run("copy", "--to", "sqlite:copy.db"); status != 0 {
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
	if got := checked.Settings; got["JWT_SECRET_FILE"] != mounts+"/jwt" || got["JWT_SECRET"] != "xxxxx" || got["DATABASE_URL_FILE"] != mounts+"/url" || got["DATABASE_URL"] != "sqlite:worldevents.db" {
		t.Errorf("check: %v", got)
	}
}
