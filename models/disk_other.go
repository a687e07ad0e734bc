//go:build !unix

package models

import (
	"errors"
	"os"
)

func diskLeft(string) (uint64, error) { return 0, errors.ErrUnsupported }

// mayWrite cannot tell beforehand.
func mayWrite(name string) error {
	_, err := os.Stat(name)
	return err
}
