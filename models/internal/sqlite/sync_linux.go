package sqlite

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// syncPiece is how many bytes the disk is given at a time.
const syncPiece = 4 << 20

// syncFile has the disk take what was written to a file, a piece at a time: a commit that comes meanwhile waits
// for a piece, not for all of it. It ends with ctx.
func syncFile(ctx context.Context, f *os.File) {
	info, err := f.Stat()
	if err != nil {
		return
	}
	for at := int64(0); at < info.Size() && ctx.Err() == nil; at += syncPiece {
		unix.SyncFileRange(int(f.Fd()), at, syncPiece, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
	}
	if ctx.Err() == nil {
		f.Sync()
	}
}
