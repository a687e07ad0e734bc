package postgres

import (
	"context"
	"database/sql/driver"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// HostsOf returns how to connect to each host of a URL by itself. Its sslmode may allow several ways: with TLS
// and without.
func HostsOf(config *pgx.ConnConfig) (hosts []*pgx.ConnConfig) {
	all := append([]*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}}, config.Fallbacks...)
	for _, way := range all {
		i := slices.IndexFunc(hosts, func(h *pgx.ConnConfig) bool { return h.Host == way.Host && h.Port == way.Port })
		if i >= 0 {
			hosts[i].Fallbacks = append(hosts[i].Fallbacks, way)
			continue
		}
		host := config.Copy()
		host.Host, host.Port, host.TLSConfig, host.Fallbacks = way.Host, way.Port, way.TLSConfig, nil
		hosts = append(hosts, host)
	}
	return hosts
}

// AddressOf is the host and the port to which a config connects first.
func AddressOf(config *pgx.ConnConfig) string {
	return net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
}

// host is one of the hosts of the URL.
type host struct {
	driver.Connector
	hosts *hosts
	// name resolves to addresses. address is the one of them that connected last.
	name    hostName
	address atomic.Pointer[string]
	// heard counts what came from the host, if the URL has several. askAgain is when a search may ask it again.
	heard    atomic.Uint64
	askAgain time.Time // guarded by hosts.mu
}

// newHost prepares connections to one host of HostsOf. several means that the URL has more hosts.
func (s *Server) newHost(of *hosts, config *pgx.ConnConfig, several bool) *host {
	h := &host{hosts: of, name: hostName{timeout: s.timeout}}
	config.OnNotification = hear
	if several {
		config.DialFunc = h.followed(config.DialFunc)
		if config.ValidateConnect == nil { // otherwise a standby that responds first would do
			config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
		}
	}
	h.Connector = stdlib.GetConnector(*config,
		stdlib.OptionBeforeConnect(func(ctx context.Context, config *pgx.ConnConfig) error {
			config.AfterConnect = s.mark()
			config.User, config.Password = s.credentials()
			return h.prepare(ctx, config)
		}),
		stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
			if address, _, err := net.SplitHostPort(conn.PgConn().Conn().RemoteAddr().String()); err == nil {
				h.address.Store(&address)
			}
			s.checks.responded(conn)
			err := configure(ctx, conn, s.timeout)
			if err != nil { // stdlib would leave it open
				conn.PgConn().Conn().Close()
			}
			return err
		}),
		stdlib.OptionShouldPing(s.checks.noteIdle),
		stdlib.OptionResetSession(s.reset))
	return h
}

// prepare resolves the host's name and gives each address a share of the time. The address that connected last
// comes first, because others may lead to nobody.
func (h *host) prepare(ctx context.Context, config *pgx.ConnConfig) error {
	if network, _ := pgconn.NetworkAddress(config.Host, config.Port); network == "unix" {
		return nil
	}
	addresses, err := h.name.resolve(ctx, config.LookupFunc, config.Host)
	if err != nil {
		return err
	}
	if last := h.address.Load(); last != nil {
		addresses = slices.Clone(addresses)
		slices.SortStableFunc(addresses, func(a, b string) int {
			switch *last {
			case a:
				return -1
			case b:
				return 1
			}
			return 0
		})
	}
	config.LookupFunc = func(context.Context, string) ([]string, error) { return addresses, nil }
	if deadline, ok := ctx.Deadline(); ok && len(addresses) > 1 {
		attempts := len(addresses) * (1 + len(config.Fallbacks))
		config.ConnectTimeout = min(config.ConnectTimeout, time.Until(deadline)/time.Duration(attempts))
	}
	return nil
}

// connect makes a connection to the host. It takes no longer than the timeout.
func (h *host) connect(ctx context.Context) (driver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, h.hosts.timeout)
	defer cancel()
	return h.Connector.Connect(ctx)
}
