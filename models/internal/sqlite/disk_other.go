//go:build !unix

package sqlite

import (
	"errors"
	"os"
)

func DiskLeft(string) (uint64, error) { return 0, errors.ErrUnsupported }

// MayWrite cannot tell beforehand.
func MayWrite(name string) error {
	_, err := os.Stat(name)
	return err
}
