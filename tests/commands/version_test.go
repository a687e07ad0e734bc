package commands

import (
	"encoding/json"
	"strings"
	"testing"

	"worldevents/config/build"
	"worldevents/tests/servicetest"
)

// The contract, the program and the client have one version, and the changelog says what is in it.
func TestOneVersion(t *testing.T) {
	t.Parallel()
	servicetest.Is(t, servicetest.Document(t).Info.Version, build.Version, "the version of openapi.yaml")
	var client struct{ Version string }
	if err := json.Unmarshal([]byte(servicetest.Shipped(t, "gen/typescript/package.json")), &client); err != nil || client.Version != build.Version {
		t.Errorf("the client has %s, the program %s: %v", client.Version, build.Version, err)
	}
	if !strings.Contains(servicetest.Shipped(t, "CHANGELOG.md"), "\n## "+build.Version+"\n") {
		t.Errorf("CHANGELOG.md has no %s", build.Version)
	}
}

// The first line of a log says which build serves, as the command does.
func TestServeSaysItsVersion(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t, "LOG_FORMAT=json")
	lines := strings.Split(p.MustRun("version"), "\n")
	for _, args := range [][]string{{"--version"}, {"serve", "--version"}, {"user", "add", "--version"}} {
		servicetest.Is(t, p.MustRun(args...), strings.Join(lines, "\n"), "%q", args)
	}
	for _, name := range []string{"go 1.", "pgx", "sqlite"} {
		if !strings.Contains(strings.Join(lines, "\n"), name) {
			t.Errorf("no %s: %q", name, lines)
		}
	}
	if lines[0] != "worldevents "+build.Version || !strings.HasPrefix(lines[1], "commit ") {
		t.Fatalf("%q", lines)
	}
	commit, when, _ := strings.Cut(strings.TrimPrefix(lines[1], "commit "), " ")
	want := `"msg":"serving","version":"` + build.Version + `","commit":"` + commit + `","commit_time":"` + when + `"`
	servicetest.Contains(t, p.ServeReady().AwaitMessage("serving"), want)
}
