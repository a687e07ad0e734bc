package servicetest

import (
	"os"
	"path/filepath"
	"testing"
)

// UnitFile is the unit of systemd that the project ships.
const UnitFile = "deploy/worldevents.service"

// Shipped is the text of a file of the project.
func Shipped(tb testing.TB, name string) string {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(Root(tb), filepath.FromSlash(name)))
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// WriteSecret replaces a file in one step, as OPERATING.md says.
func WriteSecret(tb testing.TB, path, text string) {
	tb.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		tb.Fatal(err)
	}
}
