//go:build unix

package main

import "syscall"

// keepFilesPrivate makes the files that this process makes its owner's alone from the moment they exist,
// whatever the umask of the shell: SQLite would let everybody read its own.
func keepFilesPrivate() { syscall.Umask(0o077) }
