package backpressure

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"

	"worldevents/internal/socket"
)

// Attach makes h serve the connections of l with c's rules, and returns the listener to serve on. Where h has a configuration of
// TLS the listener does that, too.
func (c *Class) Attach(h *http.Server, l net.Listener) net.Listener {
	h.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if secured, ok := conn.(interface{ NetConn() net.Conn }); ok {
			conn = secured.NetConn()
		}
		return NewContext(ctx, conn)
	}
	// With HTTP/2 a connection has many responses at once, and another goroutine writes them. Their number and what the service
	// keeps for each would be up to the clients.
	h.Protocols = new(http.Protocols)
	h.Protocols.SetHTTP1(true)
	config := h.TLSConfig
	if config != nil {
		config = config.Clone()
		config.NextProtos = append(config.NextProtos, "http/1.1")
	}
	return listener{l, c, config}
}

type connKey struct{}

// NewContext returns the context of requests on a connection, which is a *Conn.
func NewContext(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// FromContext returns the connection of a request, nil if it has none of an attached listener.
func FromContext(ctx context.Context) *Conn {
	conn, _ := ctx.Value(connKey{}).(*Conn)
	return conn
}

type listener struct {
	net.Listener
	class  *Class
	config *tls.Config // nil without TLS
}

func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	limitUnsent(conn)
	c := &Conn{Conn: conn, class: l.class, try: socket.NewWriter(conn)}
	l.class.mu.Lock()
	defer l.class.mu.Unlock()
	l.class.conns[c] = true
	if l.class.hurried.Load() {
		c.hurry()
	}
	if l.config != nil {
		c.secured = true
		return securedConn{tls.Server(c, l.config)}, nil
	}
	return c, nil
}
