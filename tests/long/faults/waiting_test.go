package faults

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// waiters is how many clients wait for news; WAITERS says otherwise.
var waiters = func() int {
	if n, err := strconv.Atoi(os.Getenv("WAITERS")); err == nil {
		return n
	}
	return 1000
}()

// follower is a client that waits for news of a list over one connection.
type follower struct {
	t       *testing.T
	address string
	user    *user
	path    string
	etag    string
	conn    net.Conn
	r       *bufio.Reader
}

func newFollower(t *testing.T, p *servicetest.Process, u *user, path, etag string) *follower {
	return &follower{t: t, address: strings.TrimPrefix(p.URL, "http://"), user: u, path: path, etag: etag}
}

// send asks for the list, on a new connection if there is none.
func (f *follower) send(wait int) error {
	if f.conn == nil {
		var err error
		if f.conn, err = net.DialTimeout("tcp", f.address, 20*time.Second); err != nil {
			f.conn = nil
			return err
		}
		f.r = bufio.NewReaderSize(f.conn, 1024)
	}
	_, err := fmt.Fprintf(f.conn, "GET %s?wait=%d HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: %s\r\nCookie: token=%s\r\n\r\n",
		f.path, wait, f.etag, f.user.Cookies["token"])
	return err
}

// read reads the response and remembers its ETag.
func (f *follower) read() (status int, header http.Header, err error) {
	res, err := http.ReadResponse(f.r, nil)
	if err != nil {
		f.hangUp()
		return 0, nil, err
	}
	if _, err = io.Copy(io.Discard, res.Body); err != nil || res.Close {
		f.hangUp()
	}
	if tag := res.Header.Get("ETag"); tag != "" {
		f.etag = tag
	}
	return res.StatusCode, res.Header, err
}

func (f *follower) hangUp() {
	if f.conn != nil {
		f.conn.Close()
		f.conn = nil
	}
}

// followAll has one client wait for each path, all at once, and returns once all wait.
func followAll(t *testing.T, p *servicetest.Process, users []*user, n int, path func(i int) string, etags map[string]string) []*follower {
	t.Helper()
	all := make([]*follower, n)
	var wait sync.WaitGroup
	for i := range all {
		all[i] = newFollower(t, p, users[i%len(users)], path(i), etags[path(i)])
		wait.Go(func() {
			if err := all[i].send(50); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	waiting := func() bool { return gauge(t, p, "worldevents_list_watches") == float64(n) }
	for deadline := time.Now().Add(time.Minute); !waiting(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%.0f wait; the waits of %.0f are over, %.0f lists had a response; %s", gauge(t, p, "worldevents_list_watches"),
				gauge(t, p, "worldevents_list_watches_total"), gauge(t, p, "worldevents_requests_total"), p.Log)
		}
	}
	return all
}

// gauge is the value of a metric, or the sum of all with the name if it has labels.
func gauge(t *testing.T, p *servicetest.Process, name string) (sum float64) {
	t.Helper()
	status, text := p.AdminBody("/metrics")
	matches := regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(name)+`(?:\{[^}]*\})? (\S+)$`).FindAllStringSubmatch(text, -1)
	if len(matches) == 0 {
		t.Errorf("no metric %s: %d %.300s", name, status, text)
	}
	for _, match := range matches {
		value, _ := strconv.ParseFloat(match[1], 64)
		sum += value
	}
	return sum
}

const readings = "worldevents_list_readings_total"

// addWaitingWorlds makes the world "one" of 100 events with 20 RSVPs each, and n worlds of one event with 20.
func addWaitingWorlds(t *testing.T, db *servicetest.Database, n int) {
	t.Helper()
	db.Exec(fmt.Sprintf(`INSERT INTO users (id, username, created_at)
		SELECT CAST('00000000-0000-7000-9000-' || lpad(CAST(i AS text), 12, '0') AS uuid), 'somebody ' || i, %s FROM generate_series(1, 20) i`, moment))
	db.Exec(fmt.Sprintf(`INSERT INTO events (id, world_id, name, description, scheduled_at, created_at)
		SELECT CAST('00000000-0000-7000-8000-' || lpad(CAST(i AS text), 12, '0') AS uuid), CASE WHEN i <= 100 THEN 'one' ELSE 'world' || (i - 100) END, 'n', 'd', %s, %s
		FROM generate_series(1, %d) i`, moment, moment, 100+n))
	db.Exec("INSERT INTO rsvps (event_number, user_number, username, created_at) SELECT e.number, u.number, u.username, " + moment +
		" FROM events e, users u WHERE u.username LIKE 'somebody %'")
	db.Exec("ANALYZE")
}

func worldPath(i int) string { return fmt.Sprint("/api/event/world", i+1) }

// tagsOf asks for the ETags of lists.
func tagsOf(t *testing.T, u *user, paths ...string) map[string]string {
	t.Helper()
	tags := make(map[string]string)
	for _, path := range paths {
		res := u.Do("GET", path, "")
		if res.Status != 200 || res.Header.Get("Etag") == "" {
			t.Fatalf("%s: %v", path, res)
		}
		tags[path] = res.Header.Get("Etag")
	}
	return tags
}

// Many who wait take little, and give all of it back. Each waits for another list, which costs the most.
func TestManyWait(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	addWaitingWorlds(t, db, waiters)
	p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL, "LOG_LEVEL=error").ServeReady()
	users := signInAll(t, p, 20)
	var paths []string
	for i := range waiters {
		paths = append(paths, worldPath(i))
	}
	tags := tagsOf(t, users[0], paths...)
	before, goroutines := p.Memory("VmRSS"), gauge(t, p, "go_goroutines")
	all := followAll(t, p, users, waiters, worldPath, tags)
	each := float64(p.Memory("VmRSS")-before) / float64(waiters) / 1000
	time.Sleep(11 * time.Second) // the deadline for reading a request is over
	if n := gauge(t, p, "worldevents_list_watches"); n != float64(waiters) {
		t.Errorf("%.0f still wait", n)
	}
	t.Logf("%.1f kB for each of %d who wait", each, waiters)
	if each > 80 {
		t.Errorf("%.1f kB for each", each)
	}
	for _, f := range all {
		f.hangUp()
	}
	servicetest.Eventually(t, 40*time.Second, "all is given back", func() bool {
		return gauge(t, p, "worldevents_list_watches") == 0 && gauge(t, p, "go_goroutines") < goroutines+50
	})
}

// Who waits keeps no more than 8 KB of stack and the 2 KB of who reads beside, whatever it took to verify a JWT that nobody has sent
// before.
func TestFirstJWTLeavesStacksSmall(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	addWaitingWorlds(t, db, 1)
	p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL, "LOG_LEVEL=error", "SESSIONS_PER_USER=100", "GODEBUG=adaptivestackstart=0").ServeReady()
	var users []*user
	for range 20 {
		users = append(users, signIn(t, plain, p.URL, "alice"))
	}
	for len(users) < waiters {
		next := users[len(users)-20].clone()
		if res := next.Do("GET", servicetest.RefreshPath, ""); res.Status != 200 {
			t.Fatal(res)
		}
		users = append(users, next)
	}
	one := func(int) string { return "/api/event/one" }
	tags := tagsOf(t, users[0], one(0))
	const stacks = "go_memstats_stack_inuse_bytes"
	before := gauge(t, p, stacks)
	all := followAll(t, p, users, waiters, one, tags)
	if each := (gauge(t, p, stacks) - before) / float64(waiters); each > 13_000 {
		t.Errorf("stacks of %.0f bytes for each", each)
	}
	for _, f := range all {
		f.hangUp()
	}
}

// Whoever has had news and waits again takes no larger stack than on arrival.
func TestNewsLeavesStacksSmall(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	addWaitingWorlds(t, db, 1)
	p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL, "LOG_LEVEL=error", "GODEBUG=adaptivestackstart=0").ServeReady() // as deploy/ has it
	users := signInAll(t, p, 20)
	one := func(int) string { return "/api/event/one" }
	all := followAll(t, p, users, waiters, one, tagsOf(t, users[0], one(0)))
	event := users[0].list(t, "one").Events[50].ID
	const stacks = "go_memstats_stack_inuse_bytes"
	before := gauge(t, p, stacks)
	if res := users[1].Do("POST", "/api/event/join/"+event, ""); res.Status != 200 {
		t.Fatal(res)
	}
	for _, f := range all {
		if status, _, err := f.read(); status != 200 {
			t.Fatalf("%d %v", status, err)
		}
		if err := f.send(50); err != nil {
			t.Fatal(err)
		}
	}
	servicetest.Eventually(t, time.Minute, "all wait again", func() bool { return gauge(t, p, "worldevents_list_watches") == float64(waiters) })
	after := gauge(t, p, stacks)
	t.Logf("stacks of %.1f kB for each, then of %.1f", before/float64(waiters)/1000, after/float64(waiters)/1000)
	if after > 1.25*before {
		t.Errorf("stacks were %.0f bytes, and are %.0f", before, after)
	}
	for _, f := range all {
		f.hangUp()
	}
}

func signInAll(t *testing.T, p *servicetest.Process, n int) (users []*user) {
	for i := range n {
		users = append(users, signIn(t, plain, p.URL, fmt.Sprint("user ", i)))
	}
	return users
}

// All who wait for one list have the news soon, from few readings, and others are served meanwhile.
func TestManyWaitForOne(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	addWaitingWorlds(t, db, 1)
	p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL, "LOG_LEVEL=error").ServeReady()
	users := signInAll(t, p, 20)
	one := func(int) string { return "/api/event/one" }
	all := followAll(t, p, users, waiters, one, tagsOf(t, users[0], one(0)))
	event := users[0].list(t, "one").Events[50].ID

	stop := make(chan struct{})
	var mu sync.Mutex
	var slowest time.Duration
	wait := workers(2, stop, func(int) {
		res := users[0].clone().Do("GET", worldPath(0), "")
		mu.Lock()
		defer mu.Unlock()
		slowest = max(slowest, res.Took)
		if res.Status != 200 {
			t.Errorf("an ordinary call: %v", res)
		}
	})
	before, begin := gauge(t, p, readings), time.Now()
	if res := users[1].Do("POST", "/api/event/join/"+event, ""); res.Status != 200 {
		t.Fatal(res)
	}
	var last atomic.Int64
	var together sync.WaitGroup
	for _, f := range all {
		together.Go(func() {
			if status, _, err := f.read(); status != 200 {
				t.Errorf("%d %v", status, err)
			}
			last.Store(int64(time.Since(begin)))
			if err := f.send(50); err != nil {
				t.Error(err)
			}
		})
	}
	together.Wait()
	spread := time.Duration(last.Load())
	servicetest.Eventually(t, 40*time.Second, "all wait again", func() bool { return gauge(t, p, "worldevents_list_watches") == float64(waiters) })
	again := time.Since(begin)
	n := gauge(t, p, readings) - before
	close(stop)
	wait()
	t.Logf("%d have the news after %v and wait again after %v, %.0f readings; ordinary calls within %v", waiters, spread.Round(time.Millisecond), again.Round(time.Millisecond), n, slowest.Round(time.Millisecond))
	if n > 4*again.Seconds()+2 {
		t.Errorf("%.0f readings in %v", n, again)
	}
	for _, f := range all {
		f.hangUp()
	}
}

// A stop sends all who wait elsewhere, and there nobody else notices.
func TestManyWaitThroughRestart(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	const worlds = 20
	addWaitingWorlds(t, db, worlds)
	first := servicetest.NewProgram(t, "DATABASE_URL="+db.URL, "LOG_LEVEL=error").ServeReady()
	second := servicetest.NewProgram(t, "DATABASE_URL="+db.URL, "LOG_LEVEL=error").ServeReady()
	users := signInAll(t, first, 20)
	var paths []string
	for i := range worlds {
		paths = append(paths, worldPath(i))
	}
	n := min(waiters, 5000)
	all := followAll(t, first, users, n, func(i int) string { return paths[i%worlds] }, tagsOf(t, users[0], paths...))

	stop := make(chan struct{})
	var slowest atomic.Int64
	var calls atomic.Int64
	wait := workers(4, stop, func(i int) {
		u := users[i].clone()
		u.URL = second.URL
		res := u.Do("GET", paths[rand.IntN(worlds)], "")
		if res.Status != 200 {
			t.Errorf("an ordinary call: %v", res)
		}
		calls.Add(1)
		for took := int64(res.Took); took > slowest.Load(); {
			slowest.Store(took)
		}
		time.Sleep(10 * time.Millisecond)
	})
	first.Signal(syscall.SIGTERM)
	begin := time.Now()
	var left atomic.Int64
	var together sync.WaitGroup
	for _, f := range all {
		together.Go(func() {
			status, header, err := f.read()
			if status != 304 || header.Get("Retry-After") != "1" || f.conn != nil {
				t.Errorf("%d %v %v", status, header, err)
				return
			}
			left.Store(int64(time.Since(begin)))
			time.Sleep(time.Second + time.Duration(rand.Int64N(int64(time.Second/2))))
			f.address = strings.TrimPrefix(second.URL, "http://")
			if err := f.send(50); err != nil {
				t.Error(err)
			}
		})
	}
	together.Wait()
	servicetest.Eventually(t, 40*time.Second, "all wait again", func() bool { return gauge(t, second, "worldevents_list_watches") == float64(n) })
	again := time.Since(begin)
	close(stop)
	wait()
	perList := gauge(t, second, readings) / worlds
	t.Logf("%d have left after %v and wait elsewhere after %v, with %.1f readings a list beside those of the first; %d ordinary calls within %v", n,
		time.Duration(left.Load()).Round(time.Millisecond), again.Round(time.Millisecond), perList, calls.Load(), time.Duration(slowest.Load()).Round(time.Millisecond))
	if perList > max(3, again.Seconds()/3+1) { // a machine that takes long to let them in reads for newcomers every 3 s
		t.Errorf("%.1f readings a list", perList)
	}
	if status := first.Wait(20 * time.Second); status != 0 {
		t.Errorf("exit status %d", status)
	}
	for _, f := range all {
		f.hangUp()
	}
}

// A response that was waited for may take as long as any other, although the deadlines of its request are over.
func TestWaitPastDeadlines(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t).ServeReady()
	alice := signIn(t, plain, p.URL, "alice")
	for range 150 {
		if res := alice.Do("POST", "/api/event/plaza", `{"name":"n","description":"`+strings.Repeat("d", 5000)+`","scheduledAt":"2030-01-02T03:04:05Z"}`); res.Status != 200 {
			t.Fatal(res)
		}
	}
	f := newFollower(t, p, alice, "/api/event/plaza", tagsOf(t, alice, "/api/event/plaza")["/api/event/plaza"])
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
	}}
	var err error
	if f.conn, err = dialer.Dial("tcp", f.address); err != nil {
		t.Fatal(err)
	}
	defer f.hangUp()
	f.r = bufio.NewReaderSize(f.conn, 1024)
	if err := f.send(50); err != nil {
		t.Fatal(err)
	}
	time.Sleep(31 * time.Second) // longer than the deadline for writing a response
	if n := gauge(t, p, "worldevents_list_watches"); n != 1 {
		t.Fatalf("%.0f wait", n)
	}
	alice.clone().Do("POST", "/api/event/plaza", `{"name":"n","description":"","scheduledAt":"2030-01-02T03:04:05Z"}`)
	time.Sleep(500 * time.Millisecond) // the kernel does not take all of it at once
	f.conn.(*net.TCPConn).SetReadBuffer(4 << 20)
	if status, _, err := f.read(); status != 200 || err != nil {
		t.Errorf("%d %v", status, err)
	}
}

// Through nginx a list waits like any other request. Where the proxy gives up first its client is told so, and the
// service takes the client for gone.
func TestWaitThroughNginx(t *testing.T) {
	t.Parallel()
	nginx := servicetest.Tool(t, "nginx")
	p := servicetest.NewProgram(t).ServeReady()
	alice := signIn(t, plain, p.URL, "alice")
	event, res := alice.create("plaza", "a")
	if event == "" {
		t.Fatal(res)
	}
	dir := t.TempDir()
	patient, hasty := servicetest.FreeAddress(t), servicetest.FreeAddress(t)
	target := strings.TrimPrefix(p.URL, "http://")
	config := filepath.Join(dir, "nginx.conf")
	os.WriteFile(config, []byte(`
daemon off;
master_process off;
pid `+dir+`/pid;
error_log stderr warn;
events {}
http {
  access_log off;
  client_body_temp_path `+dir+`/body; proxy_temp_path `+dir+`/proxy; fastcgi_temp_path `+dir+`/f; uwsgi_temp_path `+dir+`/u; scgi_temp_path `+dir+`/s;
  proxy_set_header Host $host;
  proxy_next_upstream off;
  server { listen `+patient+`; location / { proxy_pass http://`+target+`; } }
  server { listen `+hasty+`; location / { proxy_pass http://`+target+`; proxy_read_timeout 1s; } }
}
`), 0o600)
	proxy := exec.Command(nginx, "-p", dir, "-c", config)
	proxy.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log := new(servicetest.Log)
	proxy.Stdout, proxy.Stderr = log, log
	ended, err := servicetest.StartCommand(proxy)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		proxy.Process.Kill()
		<-ended
	})
	through := func(address string, etag string) response {
		u := alice.clone()
		u.URL = "http://" + address
		return u.Do("GET", "/api/event/plaza?wait=20", "", servicetest.IfNoneMatch(etag))
	}
	servicetest.Eventually(t, 20*time.Second, "nginx passes requests on", func() bool { return through(patient, `"x"`).Status == 200 })
	etag := through(patient, `"x"`).Header.Get("Etag")
	if res := through(hasty, etag); res.Status != 504 {
		t.Errorf("a proxy that gives up: %v", res)
	}
	servicetest.Eventually(t, 20*time.Second, "the client is gone", func() bool { return gauge(t, p, "worldevents_list_watches") == 0 })
	done := make(chan response)
	go func() { done <- through(patient, etag) }()
	servicetest.Eventually(t, 20*time.Second, "the request waits", func() bool { return gauge(t, p, "worldevents_list_watches") == 1 })
	time.Sleep(2 * time.Second)
	alice.clone().Do("DELETE", "/api/event/"+event, "")
	if res := <-done; res.Status != 200 || res.Header.Get("Etag") == etag {
		t.Errorf("after a change: %v\n%s", res, log)
	}
}
