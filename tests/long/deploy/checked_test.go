package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A release is refused where a vulnerability is known, where a module is outdated, and where nobody could look.
func TestReleaseIsChecked(t *testing.T) {
	t.Parallel()
	dir := commitCopy(t)
	// run runs a script, which must end so and say that.
	run := func(env []string, status int, says, script string, args ...string) {
		t.Helper()
		command := exec.Command(filepath.Join(dir, ".ci", script), args...)
		command.Dir, command.Env = dir, append(os.Environ(), env...)
		out, err := command.CombinedOutput()
		if command.ProcessState.ExitCode() != status || !strings.Contains(string(out), says) {
			t.Errorf("%s with %q: %v, want %d and %q:\n%s", script, env, err, status, says, out)
		}
	}
	const unreachable = "VULNERABILITIES=https://127.0.0.1:1"
	run([]string{vulnerabilities(t, "")}, 0, "", "vulnerabilities")
	run([]string{vulnerabilities(t, jwt)}, 1, "GO-2030-0001", "vulnerabilities")
	run([]string{unreachable}, 2, "NOT CHECKED", "vulnerabilities")
	killed := writeScript(t, "govulncheck", "kill -KILL $$\n")
	run([]string{"PATH=" + filepath.Dir(writeScript(t, "go", "cp "+killed+" \"$5\"\n")) + ":" + os.Getenv("PATH")}, 2, "NOT CHECKED", "vulnerabilities")

	const day = 24 * time.Hour
	current, old := releases(t, dir, 0), releases(t, dir, 15*day)
	run(current, 0, "", "outdated")
	run(releases(t, dir, 13*day), 0, "", "outdated")
	run(old, 1, jwt+" v5", "outdated")
	run([]string{"GOPROXY=off"}, 2, "NOT CHECKED", "outdated")
	for line, status := range map[string]int{"2099-01-01 a reason": 0, "2020-01-01 a reason": 1, "2099-01-01": 1, "soon a reason": 1} {
		write(t, filepath.Join(dir, ".ci/outdated.exempt"), jwt+" "+line+"\n")
		run(old, status, "", "outdated")
	}
	inCopy(t, dir, nil, "git", "checkout", "--quiet", ".ci/outdated.exempt")

	// What a release makes of their ends needs no look.
	for _, script := range []string{"vulnerabilities", "outdated"} {
		write(t, filepath.Join(dir, ".ci", script), "#!/bin/sh\nexit $"+script+"\n")
	}
	inCopy(t, dir, nil, "git", "commit", "--quiet", "--all", "--message", "ends")
	note := filepath.Join(dir, "dist", "UNCHECKED")
	for _, ends := range [][]string{{"vulnerabilities=1", "outdated=0"}, {"vulnerabilities=2", "outdated=0"}, {"vulnerabilities=0", "outdated=1"}, {"vulnerabilities=0", "outdated=2"}} {
		run(ends, 1, "release: refused", "release", "dist", "deploy")
	}
	run([]string{"vulnerabilities=0", "outdated=0"}, 0, "", "release", "dist", "deploy")
	if _, err := os.Stat(note); err == nil {
		t.Error("a release that was checked has a file UNCHECKED")
	}
	run([]string{"vulnerabilities=2", "outdated=2", "UNCHECKED=1"}, 0, "", "release", "dist", "deploy")
	if _, err := os.Stat(note); err != nil || strings.Contains(readAll(t, filepath.Join(dir, "dist", "SHA256SUMS")), "UNCHECKED") {
		t.Errorf("UNCHECKED: %v", err)
	}
}

// jwt is a module that the service uses.
const jwt = "github.com/golang-jwt/jwt/v5"

// vulnerabilities is the setting of a database of vulnerabilities (https://go.dev/doc/security/vuln/database): of one that
// all versions of the module have, or of none at all.
func vulnerabilities(t *testing.T, module string) string {
	t.Helper()
	dir, stamp := t.TempDir(), `"modified":"2030-01-01T00:00:00Z"`
	modules, all := "[]", "[]"
	if module != "" {
		modules = fmt.Sprintf(`[{"path":%q,"vulns":[{"id":"GO-2030-0001",%s}]}]`, module, stamp)
		all = fmt.Sprintf(`[{"id":"GO-2030-0001",%s}]`, stamp)
		write(t, filepath.Join(dir, "ID/GO-2030-0001.json"), fmt.Sprintf(`{"schema_version":"1.3.1","id":"GO-2030-0001",%s,"database_specific":{"url":"https://example.org"},
			"affected":[{"package":{"name":%q,"ecosystem":"Go"},"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],
			"ecosystem_specific":{"imports":[{"path":%q}]}}]}`, stamp, module, module))
	}
	write(t, filepath.Join(dir, "index/db.json"), "{"+stamp+"}")
	write(t, filepath.Join(dir, "index/modules.json"), modules)
	write(t, filepath.Join(dir, "index/vulns.json"), all)
	return "VULNERABILITIES=file://" + dir
}

// releases is the setting of a module proxy (https://go.dev/ref/mod#goproxy-protocol) that knows the versions in use, and of
// jwt one more of that age, if it is not 0. What else is asked for comes from this machine's cache of modules, which a made
// up version must never reach.
func releases(t *testing.T, project string, age time.Duration) []string {
	t.Helper()
	dir := t.TempDir()
	for line := range strings.Lines(output(t, project, "go", "list", "-m", "-f", "{{if not (or .Main .Indirect)}}{{.Path}} {{.Version}}{{end}}", "all")) {
		path, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		folder := filepath.Join(dir, path, "@v")
		if age != 0 && path == jwt {
			version += "\nv5.999.0"
			write(t, filepath.Join(folder, "v5.999.0.mod"), "module "+path+"\n")
			write(t, filepath.Join(folder, "v5.999.0.info"), fmt.Sprintf(`{"Version":"v5.999.0","Time":%q}`, time.Now().Add(-age).UTC().Format(time.RFC3339)))
		}
		write(t, filepath.Join(folder, "list"), version+"\n")
		// A module without releases has its newest commit.
		write(t, filepath.Join(dir, path, "@latest"), fmt.Sprintf(`{"Version":%q}`, version))
	}
	env := []string{"GOPROXY=file://" + dir + ",file://" + filepath.Join(output(t, "", "go", "env", "GOMODCACHE"), "cache/download")}
	if age != 0 {
		env = append(env, "GOMODCACHE="+t.TempDir(), "GOFLAGS=-modcacherw", "GONOSUMDB="+jwt)
	}
	return env
}
