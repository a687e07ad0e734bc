package faults

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"worldevents/tests/servicetest"
)

// nameServer has 127.0.0.1 as the address of every name, or is silent.
type nameServer struct {
	conn   net.PacketConn
	silent atomic.Bool
}

func newNameServer(t *testing.T) *nameServer {
	t.Helper()
	// Resolvers use no other port than 53, and nobody else has that of such an address.
	address := fmt.Sprintf("127.%d.%d.%d:53", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	conn, err := net.ListenPacket("udp", address)
	if err != nil {
		servicetest.Missing(t, "a name server cannot listen: %v", err)
	}
	t.Cleanup(func() { conn.Close() })
	s := &nameServer{conn: conn}
	go s.serve()
	return s
}

func (s *nameServer) serve() {
	packet := make([]byte, 4096)
	for {
		n, client, err := s.conn.ReadFrom(packet)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(packet[:n]) != nil || len(m.Questions) != 1 || s.silent.Load() {
			continue
		}
		q := m.Questions[0]
		m.Header, m.Additionals = dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true}, nil
		if q.Type == dnsmessage.TypeA {
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class},
				Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
			}}
		}
		response, _ := m.Pack()
		s.conn.WriteTo(response, client)
	}
}

// used returns the program in a mount namespace of its own, in which names are resolved by s.
func (s *nameServer) used(t *testing.T, program *servicetest.Program) *servicetest.Program {
	t.Helper()
	unshare := servicetest.Tool(t, "unshare")
	if out, err := exec.Command(unshare, "--mount", "mount", "--bind", "/dev/null", "/etc/resolv.conf").CombinedOutput(); err != nil {
		servicetest.Missing(t, "no mount namespace: %v %s", err, out)
	}
	host, _, _ := net.SplitHostPort(s.conn.LocalAddr().String())
	settings := filepath.Join(t.TempDir(), "resolv.conf")
	servicetest.NoError(t, os.WriteFile(settings, []byte("nameserver "+host+"\n"), 0o600))
	return under(t, program, fmt.Sprintf(`%s --mount sh -c 'mount --bind %s /etc/resolv.conf && exec "$0" "$@"'`, unshare, settings))
}

// The resolver is silent at the start: the service waits, and becomes ready by itself. Later it is silent again: the
// connections that are there go on, and once they break requests are refused in time until it responds. The end comes in time, too.
func TestSilentResolver(t *testing.T) {
	t.Parallel()
	server := servicetest.NewPostgresServer(t)
	names := newNameServer(t)
	names.silent.Store(true)
	program := names.used(t, servicetest.NewProgram(t, "SHUTDOWN_TIMEOUT=2s", "DB_TIMEOUT=2s",
		"DATABASE_URL="+strings.Replace(server.URL(), "127.0.0.1", "database.test", 1)))
	p := program.Serve()
	for begin := time.Now(); time.Since(begin) < 3*time.Second; time.Sleep(100 * time.Millisecond) {
		if live, ready := p.Admin("/livez"), p.Admin("/readyz"); live != 200 || ready != 503 {
			t.Fatalf("liveness %d, readiness %d", live, ready)
		}
	}
	if status, body := p.Do("GET", "/api/auth/session", "", ""); status != 503 || !strings.HasPrefix(body, `{"error":"Starting","code":"overloaded"`) {
		t.Errorf("meanwhile: %d %s", status, body)
	}
	names.silent.Store(false)
	p.Readiness(200, servicetest.Soon)

	alice := signIn(t, plain, p.URL, "alice")
	machine := newYardstick(t, alice)
	names.silent.Store(true)
	alice.creates(t, "w")
	server.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'worldevents'")
	p.Readiness(503, servicetest.Soon)
	if _, res := alice.create("w", "x"); res.Status != 503 || !res.IsJSON() {
		t.Errorf("without a connection: %v", res)
	} else {
		machine.within(t, 3*time.Second, res.Took, res)
	}
	names.silent.Store(false)
	p.Readiness(200, servicetest.Soon)
	names.silent.Store(true)
	machine.stop()
	begin := time.Now()
	p.Stop()
	machine.within(t, 2*time.Second, time.Since(begin), "the end")
}
