package config

import (
	"math"
	"syscall"
)

// ConnectionLimit is MaxConnections, or what 0 means.
func (c *Config) ConnectionLimit() int {
	if c.MaxConnections == 0 {
		return openFiles() / 4 * 3
	}
	return c.MaxConnections
}

// openFiles is the limit of open files. Each connection is one.
func openFiles() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return math.MaxInt32
	}
	return int(min(uint64(limit.Cur), math.MaxInt32))
}
