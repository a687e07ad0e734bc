package acme

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// newResolver starts a name server over TCP, as Pebble wants it, for which every name that ends in .test is 127.0.0.1.
func newResolver(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go resolve(conn)
		}
	}()
	return l.Addr().String()
}

// resolve responds to the queries of a connection (RFC 1035 section 4.2.2).
func resolve(conn net.Conn) {
	defer conn.Close()
	for {
		var length uint16
		if binary.Read(conn, binary.BigEndian, &length) != nil {
			return
		}
		query := make([]byte, length)
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(query) != nil || len(m.Questions) != 1 {
			return
		}
		q := m.Questions[0]
		m.Header = dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true}
		m.Additionals = nil
		if q.Type == dnsmessage.TypeA && strings.HasSuffix(strings.ToLower(q.Name.String()), ".test.") {
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class},
				Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
			}}
		}
		response, err := m.Pack()
		if err != nil {
			return
		}
		conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(response))), response...))
	}
}
