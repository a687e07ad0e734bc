package inflight

import (
	"net"
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"worldevents/server/internal/metrics"
)

// Connections bounds those of clients. More are closed at once: in the backlog of the listener they would keep others waiting.
type Connections struct {
	limit         int64
	open, refused atomic.Int64
}

func NewConnections(limit int) *Connections { return &Connections{limit: int64(limit)} }

// Bound counts the connections of h, before it serves.
func (c *Connections) Bound(h *http.Server) {
	h.ConnState = func(conn net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			if secured, ok := conn.(interface{ NetConn() net.Conn }); ok {
				conn = secured.NetConn()
			}
			limitUnsent(conn)
			if c.open.Add(1) > c.limit {
				c.refused.Add(1)
				conn.Close()
			}
		case http.StateClosed:
			c.open.Add(-1)
		}
	}
}

// Held returns the number of open connections.
func (c *Connections) Held() int { return int(c.open.Load()) }

// Collectors are the metrics.
func (c *Connections) Collectors() []prometheus.Collector {
	return []prometheus.Collector{metrics.Counter("worldevents_refused_connections_total",
		"Connections that were closed at once, since MAX_CONNECTIONS were open.", c.refused.Load)}
}
