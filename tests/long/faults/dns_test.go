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
	if err := os.WriteFile(settings, []byte("nameserver "+host+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return under(t, program, fmt.Sprintf(`%s --mount sh -c 'mount --bind %s /etc/resolv.conf && exec "$0" "$@"'`, unshare, settings))
}

// named returns the address with a name instead of the host.
func named(name, address string) string {
	_, port, _ := net.SplitHostPort(address)
	return name + ".test:" + port
}

// The resolver is silent at the start: the service waits, and becomes ready by itself. Later it is silent again, and all
// connections break: new ones go where the name led before, and nobody notices. The end comes in time, too.
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

	load := newCreators(t, p, 10)
	names.silence("one")
	server.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'worldevents'")
	first := load.firstWrite(2 * time.Second)
	for range 20 {
		if status := p.Admin("/readyz"); status != 200 {
			t.Errorf("readiness %d", status)
		}
	}
	server.Database().AwaitListeners(t, 1)
	load.finish()
	t.Logf("first write after %v, the slowest response took %v", first.Round(time.Millisecond), load.slowest.Took.Round(time.Millisecond))
	begin := time.Now()
	p.Signal(os.Interrupt)
	if status := p.Wait(30 * time.Second); status != 0 {
		t.Errorf("exit status %d", status)
	}
	load.machine.within(t, 2*time.Second, time.Since(begin), "the end")
}

// Of two names one cannot be resolved, from the start or since the leader was lost, or neither can be any more. The first write
// comes within a second of the promotion of the other host.
func TestSilentResolverAtFailover(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name          string
		start, during []string // the names that are silent
	}{
		{"the lost host has no name", nil, []string{"one"}},
		{"no host has a name", nil, []string{"one", "two"}},
		{"a third host never had a name", []string{"three"}, []string{"three"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			primary := servicetest.NewPostgresServer(t)
			standby := primary.Standby("standby")
			makeSynchronous(t, primary)
			names := newNameServer(t)
			names.silence(test.start...)
			url := strings.NewReplacer(primary.Addr, named("one", primary.Addr), standby.Addr, named("two", standby.Addr)+",three.test:1").
				Replace(servicetest.PostgresURL(primary, standby))
			p := names.used(t, servicetest.NewProgram(t, "DATABASE_URL="+url, "DB_TIMEOUT=2s")).ServeReady()
			load := newCreators(t, p, 10)
			names.silence(test.during...)
			primary.Kill()
			standby.Promote()
			first := load.firstWrite(time.Second)
			p.Readiness(200, 20*time.Second)
			standby.Database().AwaitListeners(t, 1)
			load.finish()
			t.Logf("first write %v after the promotion, the slowest response took %v", first.Round(time.Millisecond), load.slowest.Took.Round(time.Millisecond))
		})
	}
}
