package sqlite

import (
	"os"
	"path/filepath"
	"strings"
)

// FileOf is SQLite's file for a path: the rest of a URI, in which two slashes introduce a host (RFC 8089 section 2); "" on another machine.
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

// RealFile is the absolute path of the file to which a path leads, or would lead. SQLite keeps the log beside that one.
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

// WhoHasOpen names the users of the file, in words for the operator; "" without any. The last to close a file removes the index of its log.
// A process that was killed leaves it.
func WhoHasOpen(file string) string {
	if _, err := os.Stat(RealFile(file) + "-shm"); err != nil {
		return ""
	}
	return "another process, unless it was killed"
}

// sizeOf is the size of a file in bytes, 0 if there is none.
func sizeOf(file string) int64 {
	if info, err := os.Stat(file); err == nil {
		return info.Size()
	}
	return 0
}
