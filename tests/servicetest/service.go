// Package servicetest runs the real service for tests: over TLS, with a fresh database, a clock that tests can move, and
// clients with a cookie jar whose every response is held against openapi.yaml.
package servicetest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"flag"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"worldevents/models"
	"worldevents/server"
)

// Key signs the JWTs of every Service, unless a test says otherwise.
var Key = []byte("a-key-of-tests-7f3c9be1d40852a6cbd1f09e6347")

// Options of a Service. Contract, Store, Log, Now and BaseURL are filled in before an Option sees them.
type Options struct {
	server.Options
	// DBMaxConns, DBTimeout, DBMaxWait and Sessions are MaxConns, Timeout, MaxWait and Sessions of models.Options. Unless a
	// test says otherwise they are so patient that no request is refused on a machine that does much else.
	DBMaxConns int
	DBTimeout  time.Duration
	DBMaxWait  time.Duration
	Sessions   models.SessionPolicy
	// DatabaseClock makes the store go by PostgreSQL's clock, as in production. Now is then the server's alone.
	DatabaseClock bool
}

// Option alters the options of one test.
type Option func(*Options)

// Production is the Option that sets what is set in production.
func Production(o *Options) { o.Development = false }

// Service is one instance of the service, listening on loopback.
type Service struct {
	*server.Server
	// URL is the address of the public listener, AdminURL that of the operator's.
	URL, AdminURL string
	Store         *models.Store
	Database      *Database
	Clock         *Clock
	Log           *Log
	Options       Options

	tb        testing.TB
	transport *checkedTransport
}

// Each runs test twice in parallel: as "sqlite" and as "postgres", each with a service over a fresh database.
func Each(t *testing.T, test func(t *testing.T, s *Service), changes ...Option) {
	EachDatabase(t, func(t *testing.T, db *Database) { test(t, Start(t, db, changes...)) })
}

// EachDatabase is Each for tests that start the service themselves.
func EachDatabase(t *testing.T, test func(t *testing.T, db *Database)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, SQLite(t))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, Postgres(t))
	})
}

// New starts a service on SQLite, for what has nothing to do with storage.
func New(tb testing.TB, changes ...Option) *Service { return Start(tb, SQLite(tb), changes...) }

// Start starts a service over db: in development, without docs, allowing no other origin. It ends with the test, which
// fails if a token or key was logged.
func Start(tb testing.TB, db *Database, changes ...Option) *Service {
	tb.Helper()
	s := &Service{Database: db, Clock: new(Clock), Log: new(Log), tb: tb}
	public := httptest.NewUnstartedServer(nil)
	public.Listener.Close()
	public.Listener = listen(tb)
	base, _ := url.Parse("https://" + public.Listener.Addr().String())
	s.Options = Options{
		Options: server.Options{
			Contract: contract(tb), Now: s.Clock.Now, Log: slog.New(slog.NewJSONHandler(s.Log, nil)), LogEvery: 1,
			Development: true, BaseURL: base, EventsPage: true, BrandName: "worldevents", Keys: [][]byte{Key},
			MaxInFlight: 2048, MaxConnections: 10000, MaxWatches: 10000, ListCache: 64 << 20, HSTS: "max-age=31536000; includeSubDomains",
			CertificateExpiry: func() time.Time { return time.Now().Add(time.Hour) },
		},
		Sessions:   models.SessionPolicy{TTL: 720 * time.Hour, ReuseLeeway: time.Minute, PerUser: 1},
		DBMaxConns: 8, DBTimeout: time.Minute, DBMaxWait: 20 * time.Second,
	}
	for _, change := range changes {
		change(&s.Options)
	}
	stored := models.Options{
		URL: db.URL, MaxConns: s.Options.DBMaxConns, Timeout: s.Options.DBTimeout, MaxWait: s.Options.DBMaxWait, Now: s.Options.Now, Sessions: s.Options.Sessions,
	}
	if s.Options.DatabaseClock {
		stored.Now = nil
	}
	var err error
	s.Store, err = models.Open(stored)
	NoError(tb, err)
	s.Options.Store = s.Store
	if s.Server, err = server.New(s.Options.Options); err != nil {
		tb.Fatal(err)
	}
	s.Ready()
	// The exchange of keys that resists quantum computers takes as long as all else of a handshake.
	public.Listener = tls.NewListener(public.Listener, &tls.Config{Certificates: []tls.Certificate{certificate(tb)}, CurvePreferences: []tls.CurveID{tls.X25519}})
	s.Attach(public.Config)
	public.Config.Handler = waitForSlow(public.Config.Handler)
	public.Config.ErrorLog = slog.NewLogLogger(s.Options.Log.Handler(), slog.LevelInfo)
	public.Start()
	admin := httptest.NewServer(s.Admin)
	s.URL, s.AdminURL = "https"+strings.TrimPrefix(public.URL, "http"), admin.URL
	transport := public.Client().Transport.(*http.Transport)
	transport.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool()}
	transport.TLSClientConfig.RootCAs.AddCert(certificate(tb).Leaf)
	s.transport = newCheckedTransport(tb, transport, s.Options)
	tb.Cleanup(func() {
		s.transport.CloseIdleConnections()
		s.Drain() // or what waits for news would be waited for
		public.Close()
		admin.Close()
		s.Store.Close()
		s.checkLog()
	})
	return s
}

// sendBuffer is the size of the kernel's buffer for what a client has not read, in bytes. It would grow to megabytes, and
// so would the lists that show what becomes of a client that does not read.
const sendBuffer = 32 << 10

func listen(tb testing.TB) net.Listener {
	tb.Helper()
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		if fault := c.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF, sendBuffer)
		}); fault != nil {
			return fault
		}
		return err
	}}
	l := Must(config.Listen(context.Background(), "tcp", "127.0.0.1:0"))(tb)
	return l
}

// NewInstance starts a further instance over the same database and clock.
func (s *Service) NewInstance(changes ...Option) *Service {
	s.tb.Helper()
	clock := s.Clock
	return Start(s.tb, s.Database, append([]Option{func(o *Options) { o.Now = clock.Now }}, changes...)...)
}

// HTTP returns a transport to the service, for requests that no Client makes.
func (s *Service) HTTP() http.RoundTripper { return s.transport.Transport }

// Run is t.Run for a case of a table: what fails during it is the case's failure, whichever client of s it fails for.
// The case must not be parallel.
func (s *Service) Run(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	parent := s.tb
	t.Run(name, func(t *testing.T) {
		defer s.report(parent)
		s.report(t)
		test(t)
	})
}

// report makes failures those of tb.
func (s *Service) report(tb testing.TB) { s.tb, s.transport.tb, s.Database.tb = tb, tb, tb }

// checkLog fails the test when a secret was logged: a key, or a value that any cookie of this service had. It reads the
// log once, however many those are.
func (s *Service) checkLog() {
	text := s.Log.String()
	for _, leak := range leaksInLog(text) {
		s.tb.Error(leak)
	}
	const beginning = 16 // bytes of a secret that find it
	secrets := make(map[string][]string)
	add := func(secret string) {
		if len(secret) >= beginning {
			secrets[secret[:beginning]] = append(secrets[secret[:beginning]], secret)
		}
	}
	for _, key := range s.Options.Keys {
		add(string(key))
	}
	s.transport.secrets.Range(func(secret, _ any) bool {
		add(secret.(string))
		return true
	})
	for i := range max(len(text)-beginning, 0) {
		for _, secret := range secrets[text[i:i+beginning]] {
			if strings.HasPrefix(text[i:], secret) {
				s.tb.Errorf("a key or the value of a cookie is in the log: %s", secret)
				return
			}
		}
	}
}

// Log collects what a service logs.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns all that was logged.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Lines are the lines of the log with a message, as JSON has them: numbers are float64.
func (l *Log) Lines(tb testing.TB, message string) (lines []map[string]any) {
	tb.Helper()
	for text := range strings.Lines(l.String()) {
		var line map[string]any
		if NoError(tb, json.Unmarshal([]byte(text), &line)); line["msg"] == message {
			lines = append(lines, line)
		}
	}
	return lines
}

// Clock tells real time until it is moved or frozen.
type Clock struct {
	mu     sync.Mutex
	offset time.Duration
	frozen time.Time
}

// Now is what the service takes for the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.frozen.IsZero() {
		return c.frozen
	}
	return time.Now().Add(c.offset)
}

// Freeze stops the clock at t.
func (c *Clock) Freeze(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = t
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += d
	if !c.frozen.IsZero() {
		c.frozen = c.frozen.Add(d)
	}
}

// Root is the folder of go.mod.
func Root(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	tb.Fatal("no go.mod above the working directory")
	return ""
}

// Main runs the tests of a package and then stops PostgreSQL and removes what was built; call it from TestMain. It
// fails when the tests leave files, connections or goroutines open.
func Main(m *testing.M) int {
	before := inUse()
	status := m.Run()
	stopCluster()
	removeBinary()
	if status == 0 && !before.released() {
		return 1
	}
	return status
}

// MainLong is Main for packages that take minutes: with -short they run nothing.
func MainLong(m *testing.M) int {
	if flag.Parse(); testing.Short() {
		return 0
	}
	return Main(m)
}

// AddUser makes a user without a session and returns the id.
func (s *Service) AddUser(username string) string {
	s.tb.Helper()
	user := Must(s.Store.AddUser(context.Background(), username))(s.tb)
	return user.ID.String()
}

// RefreshToken is a well-formed refresh token that nobody has: 128 times the digit.
func RefreshToken(digit byte) string {
	return hex.EncodeToString(bytes.Repeat([]byte{digit<<4 | digit}, 64))
}
