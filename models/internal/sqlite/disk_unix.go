//go:build unix

package sqlite

import (
	"os"

	"golang.org/x/sys/unix"
)

// DiskLeft returns the bytes that the disk of a folder has left for this user.
func DiskLeft(folder string) (uint64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(folder, &stat); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: folder, Err: err}
	}
	return uint64(stat.Bavail) * uint64(stat.Bsize), nil
}

// MayWrite returns an error unless this user may make files in a folder.
func MayWrite(name string) error { return unix.Access(name, unix.W_OK) }
