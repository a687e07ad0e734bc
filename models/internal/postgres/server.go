package postgres

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Server is the database of a URL: one PostgreSQL server, or several of which one takes writes. It makes pools of connections, and
// connections beside them. The user and the password may be replaced meanwhile.
type Server struct {
	url        atomic.Pointer[string]
	timeout    time.Duration
	config     *pgx.ConnConfig // but for user and password
	generation atomic.Uint64   // counts what makes all connections stale: new credentials, a ping in vain
	health     health
	few        chan struct{} // of the callers who ask a recovering server for a connection

	mu             sync.Mutex
	pools          []*pgxpool.Pool
	user, password string                      // those of the last connection
	seen           timeline                    // the highest
	validated      map[*pgconn.PgConn]struct{} // open connections to servers of that timeline
	failure        error                       // why no connection could be made last
	retry          time.Time                   // when the server is asked again
}

// generationKey is the key of a connection's generation.
const generationKey = "worldevents.generation"

// New connects to nothing yet. timeout is that of a call, and bounds an attempt to connect. An error means that the URL can never work.
func New(url string, timeout time.Duration) (*Server, error) {
	config, err := Parse(url, timeout)
	if err != nil {
		return nil, err
	}
	s := &Server{timeout: timeout, config: config, health: health{timeout: timeout}, few: make(chan struct{}, 2), user: config.User, password: config.Password}
	s.url.Store(&url)
	hosts := len(HostsOf(config))
	config.ConnectTimeout = min(config.ConnectTimeout, timeout)
	if hosts > 1 { // pgx asks one after the other
		config.ConnectTimeout = min(config.ConnectTimeout, timeout/time.Duration(hosts))
	}
	attributes := config.ValidateConnect
	if attributes == nil && hosts > 1 { // otherwise a standby that comes first would do
		attributes = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if attributes != nil {
		config.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
			if err := attributes(ctx, conn); err != nil {
				return err
			}
			return s.checkTimeline(ctx, conn)
		}
	}
	s.boundNetwork()
	return s, nil
}

// boundNetwork bounds each look-up of a name and each new network connection by ConnectTimeout. Package pgx bounds no look-up, and waits 15
// seconds for the connection that asks a server to cancel a statement. Until then the place in the pool is not free.
func (s *Server) boundNetwork() {
	lookUp, dial, patience := s.config.LookupFunc, s.config.DialFunc, s.config.ConnectTimeout
	s.config.LookupFunc = func(ctx context.Context, host string) ([]string, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return lookUp(ctx, host)
	}
	s.config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		conn, err := dial(ctx, network, address)
		if err == nil {
			conn.SetDeadline(time.Now().Add(patience)) // until prepare's AfterConnect
		}
		return conn, err
	}
}

// prepare completes the settings of a new connection.
func (s *Server) prepare(_ context.Context, config *pgx.ConnConfig) error {
	if err := s.refusal(); err != nil {
		return err
	}
	// Read before the URL: a connection may count as older than it is, but never as newer.
	generation := s.generation.Load()
	config.AfterConnect = func(_ context.Context, conn *pgconn.PgConn) error {
		conn.CustomData()[generationKey] = generation
		return conn.Conn().SetDeadline(time.Time{})
	}
	config.User, config.Password = s.credentials()
	return nil
}

// setUp configures a new connection. A pool sets no deadline, and would wait for ever for a server that freezes now.
func (s *Server) setUp(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return configure(ctx, conn, s.timeout)
}

// Dial makes a connection beside the pools, which calls hear with each notification.
func (s *Server) Dial(ctx context.Context, hear func(*pgconn.Notification)) (*pgx.Conn, error) {
	config := s.config.Copy()
	config.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) { hear(n) }
	if err := s.prepare(ctx, config); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if err := s.setUp(ctx, conn); err != nil {
		conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

// IsStale reports whether a connection is of an earlier generation.
func (s *Server) IsStale(conn *pgconn.PgConn) bool {
	made, _ := conn.CustomData()[generationKey].(uint64)
	return made != s.generation.Load()
}

// renew makes all connections stale. The pools close idle ones at once, and the others after their work.
func (s *Server) renew() {
	s.generation.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pool := range s.pools {
		pool.Reset()
	}
}

// Name is the name of the database, without secrets.
func (s *Server) Name() string {
	config := s.config.Copy()
	config.User, _ = s.credentials()
	return NameOf(config)
}

// credentials are those of the next connection. The URL may name a file for the password, which is read each time. Without a password, as
// while somebody replaces that file, the former one serves.
func (s *Server) credentials() (user, password string) {
	config, err := Parse(*s.url.Load(), s.timeout)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && (config.Password != "" || config.User != s.user) {
		s.user, s.password = config.User, config.Password
	}
	return s.user, s.password
}

// UseCredentials makes new connections use the user and the password of a URL. It tries them first, and returns ErrFixedURL or
// ErrCredentials without a change. Untried ones it uses all the same: the former ones may end soon.
func (s *Server) UseCredentials(ctx context.Context, text string) (c Credentials, err error) {
	if text == *s.url.Load() {
		return c, nil
	}
	if !sameButCredentials(*s.url.Load(), text) {
		return c, ErrFixedURL
	}
	if c.Untried = tryCredentials(ctx, text, s.timeout); errors.Is(c.Untried, ErrCredentials) {
		return Credentials{}, c.Untried
	}
	s.url.Store(&text)
	s.renew()
	c.Changed = true
	return c, nil
}
