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
	servicetest.NoError(t, json.Unmarshal([]byte(servicetest.Shipped(t, "gen/typescript/package.json")), &client))
	servicetest.Is(t, client.Version, build.Version, "the version of the client")
	servicetest.Contains(t, servicetest.Shipped(t, "CHANGELOG.md"), "\n## "+build.Version+"\n")
}

// The first line of a log says which build serves, as the command does.
func TestServeSaysItsVersion(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t, "LOG_FORMAT=json")
	text := p.MustRun("version")
	lines := strings.Split(text, "\n")
	for _, args := range [][]string{{"--version"}, {"serve", "--version"}, {"user", "add", "--version"}} {
		servicetest.Is(t, p.MustRun(args...), text, "%q", args)
	}
	for _, name := range []string{"go 1.", "pgx", "sqlite"} {
		servicetest.Contains(t, text, name)
	}
	if lines[0] != "worldevents "+build.Version || !strings.HasPrefix(lines[1], "commit ") {
		t.Fatalf("%q", lines)
	}
	commit, when, _ := strings.Cut(strings.TrimPrefix(lines[1], "commit "), " ")
	want := `"msg":"serving","version":"` + build.Version + `","commit":"` + commit + `","commit_time":"` + when + `"`
	servicetest.Contains(t, p.ServeReady().AwaitMessage("serving"), want)
}
