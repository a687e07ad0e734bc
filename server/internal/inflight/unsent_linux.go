package inflight

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxUnsent bounds the unsent bytes of a connection in the kernel, which would buffer megabytes for a client that reads nothing.
const maxUnsent = 64 << 10

// limitUnsent sets TCP_NOTSENT_LOWAT. Go's listeners speak Multipath TCP, which does not pass the option on.
func limitUnsent(conn net.Conn) {
	if c, ok := conn.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxUnsent) })
		}
	}
}
