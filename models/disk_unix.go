//go:build unix

package models

import (
	"os"

	"golang.org/x/sys/unix"
)

// diskLeft returns how many bytes the disk of a folder has left for this user.
func diskLeft(folder string) (uint64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(folder, &stat); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: folder, Err: err}
	}
	return uint64(stat.Bavail) * uint64(stat.Bsize), nil
}

// mayWrite returns an error unless this user may write a file, or make files in a folder.
func mayWrite(name string) error { return unix.Access(name, unix.W_OK) }
