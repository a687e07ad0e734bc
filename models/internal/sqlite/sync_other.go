//go:build !linux

package sqlite

import "os"

// syncFile has the disk take what was written to a file.
func syncFile(f *os.File) { f.Sync() }
