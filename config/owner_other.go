//go:build !unix

package config

import "io/fs"

// ownedByOther cannot tell: only Unix has owners as numbers.
func ownedByOther(fs.FileInfo) bool { return false }
