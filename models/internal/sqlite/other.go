//go:build !unix

package sqlite

import (
	"errors"
	"os"
)

func DiskLeft(string) (uint64, error) { return 0, errors.ErrUnsupported }

// MayWrite reports only whether the folder is there. The rights of this user show when somebody makes a file.
func MayWrite(name string) error {
	_, err := os.Stat(name)
	return err
}
