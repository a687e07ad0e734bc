//go:build !linux

package sqlite

import (
	"context"
	"os"
)

// syncFile has the disk take what was written to a file.
func syncFile(_ context.Context, f *os.File) { f.Sync() }
