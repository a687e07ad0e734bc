//go:build !unix

package backpressure

import "net"

// tryWriter writes nothing here: every write has a deadline.
type tryWriter struct{}

func newTryWriter(net.Conn) *tryWriter { return nil }

func (*tryWriter) write([]byte) int { return 0 }
