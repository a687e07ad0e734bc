package commands

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"worldevents/config/build"
	"worldevents/tests/servicetest"
)

// The contract, the program and the client have one version, and the changelog says what is in it.
func TestOneVersion(t *testing.T) {
	t.Parallel()
	if got := servicetest.Document(t).Info.Version; got != build.Version {
		t.Errorf("openapi.yaml has %s, the program %s", got, build.Version)
	}
	var client struct{ Version string }
	if err := json.Unmarshal([]byte(projectFile(t, "gen/typescript/package.json")), &client); err != nil || client.Version != build.Version {
		t.Errorf("the client has %s, the program %s: %v", client.Version, build.Version, err)
	}
	if !strings.Contains(projectFile(t, "CHANGELOG.md"), "\n## "+build.Version+"\n") {
		t.Errorf("CHANGELOG.md has no %s", build.Version)
	}
}

// projectFile returns the text of a file of the project.
func projectFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(servicetest.Root(t), filepath.FromSlash(name)))
	servicetest.NoError(t, err)
	return string(text)
}

// The first line of a log says which build serves, as the command does.
func TestServeSaysItsVersion(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t, "LOG_FORMAT=json")
	lines := strings.Split(p.MustRun("version"), "\n")
	for _, args := range [][]string{{"--version"}, {"serve", "--version"}, {"user", "add", "--version"}} {
		if got := p.MustRun(args...); got != strings.Join(lines, "\n") {
			t.Errorf("%q: %s", args, got)
		}
	}
	if lines[0] != "worldevents "+build.Version || !strings.HasPrefix(lines[1], "commit ") {
		t.Fatalf("%q", lines)
	}
	commit, when, _ := strings.Cut(strings.TrimPrefix(lines[1], "commit "), " ")
	want := `"msg":"serving","version":"` + build.Version + `","commit":"` + commit + `","commit_time":"` + when + `"`
	if log := p.ServeReady().AwaitMessage("serving"); !strings.Contains(log, want) {
		t.Errorf("no %s in %s", want, log)
	}
}
