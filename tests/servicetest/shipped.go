package servicetest

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// UnitFile is the unit of systemd that the project ships.
const UnitFile = "deploy/worldevents.service"

// Shipped is the text of a file of the project.
func Shipped(tb testing.TB, name string) string {
	tb.Helper()
	text := Must(os.ReadFile(filepath.Join(Root(tb), filepath.FromSlash(name))))(tb)
	return string(text)
}

// ShippedWith is Shipped with other values, which are given as pairs of old and new. Each old one is there.
func ShippedWith(tb testing.TB, name string, pairs ...string) string {
	tb.Helper()
	text := Shipped(tb, name)
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			tb.Fatalf("no %s in %s", pairs[i], name)
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text
}

// IsShipped reports whether the project has a file or a folder.
func IsShipped(tb testing.TB, name string) bool {
	tb.Helper()
	_, err := os.Stat(filepath.Join(Root(tb), filepath.FromSlash(name)))
	return err == nil
}

// Pages are the documents of the project, by their paths from its root.
func Pages(tb testing.TB) (pages []string) {
	tb.Helper()
	root := Root(tb)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if entry.IsDir() && slices.Contains([]string{".git", "bin", "dist", "node_modules"}, entry.Name()) {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".md") {
			pages = append(pages, filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator))))
		}
		return err
	})
	if err != nil || len(pages) < 20 {
		tb.Fatalf("pages %q: %v", pages, err)
	}
	return pages
}

// WriteSecret replaces a file in one step, as the runbooks do.
func WriteSecret(tb testing.TB, path, text string) {
	tb.Helper()
	NoError(tb, os.WriteFile(path+".new", []byte(text), 0o600))
	NoError(tb, os.Rename(path+".new", path))
}
