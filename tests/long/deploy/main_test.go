// Package deploy proves that what ships with the service works: the files of deploy/, and releases.
package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"worldevents/tests/servicetest"
)

func TestMain(m *testing.M) { os.Exit(servicetest.MainLong(m)) }

// projectPath returns the path of a file of the project.
func projectPath(t *testing.T, name string) string {
	t.Helper()
	return filepath.Join(servicetest.Root(t), filepath.FromSlash(name))
}

func readAll(t *testing.T, path string) string {
	t.Helper()
	return string(servicetest.Must(os.ReadFile(path))(t))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	servicetest.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	servicetest.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// writeScript writes a script into a folder of its own, and returns its path.
func writeScript(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	servicetest.WriteExecutable(t, path, "#!/bin/sh\n"+text)
	return path
}

// output is what a command prints that must succeed, without the space around it.
func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	command := exec.Command(servicetest.Tool(t, name), args...)
	command.Dir = dir
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s %q: %v: %s%s", name, args, err, stderr.String(), out)
	}
	return strings.TrimSpace(string(out))
}
