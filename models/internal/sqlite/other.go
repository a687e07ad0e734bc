//go:build !unix

package sqlite

import (
	"errors"
	"os"
)

func DiskLeft(string) (uint64, error) { return 0, errors.ErrUnsupported }

// MayWrite reports only whether the folder is there. Whether this user may make files there shows when somebody does.
func MayWrite(name string) error {
	_, err := os.Stat(name)
	return err
}
