package backpressure

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// send writes what the kernel takes of p at once. With more, the kernel may keep the end of it for the write that follows
// (MSG_MORE, send(2)), which spares the network, and the client, half of the packets and wake-ups of a short beginning.
func send(fd int, p []byte, more bool) (int, error) {
	if more {
		return unix.SendmsgN(fd, p, nil, nil, unix.MSG_MORE)
	}
	return syscall.Write(fd, p)
}
