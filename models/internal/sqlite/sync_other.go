//go:build !linux

package sqlite

import (
	"context"
	"os"
)

// syncFile has the disk take what was written to a file, all at once.
func syncFile(_ context.Context, f *os.File) { f.Sync() }
