package hostile

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// How a stop goes: requests are taken for a fifth of the time, and a second later whoever reads too slowly is aborted. Late is what a
// busy machine may need besides.
const (
	shutdownTimeout = 10 * time.Second
	abortsAfter     = shutdownTimeout/5 + time.Second
	late            = time.Second
)

// A stop under attack is over in time, and breaks no request of those who send and read: the attacker's are aborted first.
func TestStop(t *testing.T) {
	for i, c := range matrix(*stopCount, []string{direct, tlsPath}) {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			failed(t, c, stopped(t, c, i))
		})
	}
}

// stopped runs a cell of few connections, stops the service meanwhile, and returns what was wrong.
func stopped(t *testing.T, c cell, number int) (faults []string) {
	t.Helper()
	var mu sync.Mutex
	fault := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		faults = append(faults, fmt.Sprintf(format, args...))
	}
	s := start(t, c.path, c.database, "SHUTDOWN_TIMEOUT="+shutdownTimeout.String())
	cookies := s.signIn(c.accounts.n)
	a := s.begin(c, number, cookies, maxSmall)
	defer a.end()
	<-a.mounted()

	token := s.people[0].alice.Cookies["token"]
	var honest sync.WaitGroup
	begun, signalled := make(chan bool, 3), make(chan bool)
	for what, request := range map[string]func() error{
		"a reader of 64 KiB a second": func() error { return s.readSteadily(token, begun) },
		"a create whose body ends after the signal": func() error {
			return s.createHalf(token, begun, signalled)
		},
		"a wait for news": func() error {
			begun <- true
			res := s.people[1].alice.Do("GET", "/api/event/sixty?wait=50", "", func(r *http.Request) { r.Header.Set("If-None-Match", s.tag) })
			if res.Status != 304 || res.Header.Get("Retry-After") == "" {
				return fmt.Errorf("%v, want 304 with Retry-After", res)
			}
			return nil
		},
	} {
		honest.Go(func() {
			if err := request(); err != nil {
				fault("honest: %s: %v", what, err)
			}
		})
	}
	for range cap(begun) {
		<-begun
	}
	time.Sleep(300 * time.Millisecond) // so that the wait has begun
	s.process.Signal(syscall.SIGTERM)
	at := time.Now()
	close(signalled)

	time.Sleep(time.Until(at.Add(abortsAfter + late)))
	if now, err := s.use(); err == nil { // else the process has ended
		if n := now.held["list_watches"]; n > 0 {
			fault("%v after SIGTERM %.0f requests wait for news", abortsAfter+late, n)
		}
	}
	honest.Wait()
	status := s.process.Wait(2 * shutdownTimeout)
	if took := time.Since(at); status != 0 || took > shutdownTimeout+late {
		fault("the process ended %v after SIGTERM with status %d", took.Round(100*time.Millisecond), status)
	}
	return faults
}

// readSteadily reads a list of 400 kB, a part each 62 ms: 64 KiB a second, four times what is asked of a client.
func (s *service) readSteadily(token string, begun chan<- bool) error {
	begin := sync.OnceFunc(func() { begun <- true })
	defer begin()
	conn, err := dial(s.t.Context(), honestIP, s.address(), s.secure(), 4096)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(3 * shutdownTimeout))
	fmt.Fprintf(conn, "GET /api/event/steady HTTP/1.1\r\nHost: localhost\r\nCookie: token=%s\r\n\r\n", token)
	res, err := http.ReadResponse(bufio.NewReaderSize(conn, 512), nil)
	if err != nil {
		return err
	}
	begin()
	const part = 4 << 10
	n, start := 0, time.Now()
	for buffer := make([]byte, part); err == nil; time.Sleep(time.Second / (64 << 10 / part)) {
		var m int
		m, err = io.ReadFull(res.Body, buffer)
		n += m
	}
	if res.StatusCode != 200 || err != io.EOF && err != io.ErrUnexpectedEOF || n < 400_000 || res.ContentLength >= 0 && int64(n) != res.ContentLength {
		return fmt.Errorf("%d, %d bytes of %d in %v: %w", res.StatusCode, n, res.ContentLength, time.Since(start).Round(time.Millisecond), err)
	}
	return nil
}

// createHalf sends a create whose body ends a second after the signal.
func (s *service) createHalf(token string, begun chan<- bool, signalled <-chan bool) error {
	conn, err := dial(s.t.Context(), honestIP, s.address(), s.secure(), 0)
	begun <- true
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(2 * shutdownTimeout))
	fmt.Fprintf(conn, "POST /api/event/late HTTP/1.1\r\nHost: localhost\r\nCookie: token=%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		token, len(create), create[:10])
	<-signalled
	time.Sleep(time.Second)
	io.WriteString(conn, create[10:])
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	if text, _ := io.ReadAll(res.Body); res.StatusCode != 200 {
		return fmt.Errorf("%d %s", res.StatusCode, strings.TrimSpace(string(text)))
	}
	return nil
}
