//go:build unix

package config

import (
	"io/fs"
	"os"
	"syscall"
)

// ownedByOther reports whether a file belongs to somebody who is neither root nor the user of this process.
func ownedByOther(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid()
}
