package faults

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"worldevents/tests/servicetest"
)

// nameServer knows every name that ends in .test: its address is 127.0.0.1.
type nameServer struct {
	conn net.PacketConn
	mu   sync.Mutex
	mute func(name string) bool // of the names to whose queries it says nothing
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
	s.silence()
	go s.serve()
	return s
}

// silence has it say nothing to queries for these hosts; without any it responds to all.
func (s *nameServer) silence(hosts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mute = func(name string) bool {
		for _, host := range hosts {
			if strings.HasPrefix(name, host+".") {
				return true
			}
		}
		return false
	}
}

func (s *nameServer) serve() {
	packet := make([]byte, 4096)
	for {
		n, client, err := s.conn.ReadFrom(packet)
		if err != nil {
			return
		}
		if response := s.response(packet[:n]); response != nil {
			s.conn.WriteTo(response, client)
		}
	}
}

// response is nil to a query that gets none.
func (s *nameServer) response(query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	s.mu.Lock()
	mute := s.mute(q.Name.String())
	s.mu.Unlock()
	if mute {
		return nil
	}
	m.Header = dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true}
	m.Additionals = nil
	switch {
	case !strings.HasSuffix(q.Name.String(), ".test."):
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class},
			Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
		}}
	}
	response, err := m.Pack()
	if err != nil {
		return nil
	}
	return response
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

// named returns the address with a name instead of the host.
func named(name, address string) string {
	_, port, _ := net.SplitHostPort(address)
	return name + ".test:" + port
}

// The resolver is silent at the start: the service waits, and becomes ready by itself. Later it is silent again: the
// connections that are there go on, and once they break requests are refused in time until it responds. The end comes in time, too.
func TestSilentResolver(t *testing.T) {
	t.Parallel()
	server := servicetest.NewPostgresServer(t)
	names := newNameServer(t)
	names.silence("one")
	program := names.used(t, servicetest.NewProgram(t, "SHUTDOWN_TIMEOUT=2s", "DB_TIMEOUT=2s",
		"DATABASE_URL="+strings.Replace(server.URL(), server.Addr, named("one", server.Addr), 1)))
	p := program.Serve()
	for begin := time.Now(); time.Since(begin) < 3*time.Second; time.Sleep(100 * time.Millisecond) {
		if live, ready := p.Admin("/livez"), p.Admin("/readyz"); live != 200 || ready != 503 {
			t.Fatalf("liveness %d, readiness %d", live, ready)
		}
	}
	if status, body := p.Do("GET", "/api/auth/session", "", ""); status != 503 || !strings.HasPrefix(body, `{"error":"Starting","code":"overloaded"`) {
		t.Errorf("meanwhile: %d %s", status, body)
	}
	names.silence()
	p.Readiness(200, 20*time.Second)

	alice := signIn(t, plain, p.URL, "alice")
	machine := newYardstick(t, alice)
	names.silence("one")
	alice.creates(t)
	server.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'worldevents'")
	p.Readiness(503, 20*time.Second)
	if _, res := alice.create("w", "x"); res.Status != 503 || !res.IsJSON() {
		t.Errorf("without a connection: %v", res)
	} else {
		machine.within(t, 3*time.Second, res.Took, res)
	}
	names.silence()
	p.Readiness(200, 20*time.Second)
	names.silence("one")
	machine.stop()
	begin := time.Now()
	p.Stop()
	machine.within(t, 2*time.Second, time.Since(begin), "the end")
}
