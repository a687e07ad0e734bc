package sqlite

import (
	"os"
	"path/filepath"
	"strings"
)

// FileOf is the file that SQLite finds at path. SQLite reads path as the rest of a URI, in which two slashes at
// the start introduce a host (RFC 8089 section 2). The result is "" if the host is another machine.
func FileOf(path string) string {
	authority, ok := strings.CutPrefix(path, "//")
	if !ok {
		return path
	}
	host, file, ok := strings.Cut(authority, "/")
	if !ok || host != "" && host != "localhost" {
		return ""
	}
	return "/" + file
}

// RealFile is the absolute path of the file to which a path leads, or would lead: SQLite keeps the log beside
// that one.
func RealFile(path string) string {
	for range 40 { // as many links as Linux follows
		target, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(folder, filepath.Base(path))
	}
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	return path
}

// WhoHasOpen says who has the file open, in words for the operator; "" if nobody has. Who closes a file last
// removes the index of its log. A process that was killed leaves it.
func WhoHasOpen(file string) string {
	if _, err := os.Stat(RealFile(file) + "-shm"); err != nil {
		return ""
	}
	return "another process, unless it was killed"
}

// sizeOf is the size of a file in bytes, 0 if there is none.
func sizeOf(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}
