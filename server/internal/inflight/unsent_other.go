//go:build !linux

package inflight

import "net"

// limitUnsent does nothing: the kernel's own limit holds.
func limitUnsent(net.Conn) {}
