package inflight

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxUnsent is how much the kernel takes for a connection beyond what it has sent, in bytes. Without a limit it takes
// megabytes for a client that reads nothing.
const maxUnsent = 64 << 10

// limitUnsent sets TCP_NOTSENT_LOWAT. A listener that speaks Multipath TCP, as Go's do, does not hand it on.
func limitUnsent(conn net.Conn) {
	if c, ok := conn.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxUnsent) })
		}
	}
}
