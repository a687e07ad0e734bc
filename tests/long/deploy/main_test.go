// Package deploy proves that what ships with the service works: the files of deploy/, and releases.
package deploy

import (
	"os"
	"path/filepath"
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
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
