package commands

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// eachProgram runs test with the real program on both databases.
func eachProgram(t *testing.T, test func(t *testing.T, p *servicetest.Program)) {
	servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
		test(t, servicetest.NewProgram(t, "DATABASE_URL="+db.URL))
	})
}

// eachEmptyProgram is eachProgram on databases without tables, SQLite's in the program's folder.
func eachEmptyProgram(t *testing.T, test func(t *testing.T, p *servicetest.Program)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, servicetest.NewEmptyProgram(t))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, servicetest.NewEmptyProgram(t, "DATABASE_URL="+servicetest.EmptyPostgres(t).URL))
	})
}

func TestSessionIssue(t *testing.T) {
	eachProgram(t, func(t *testing.T, p *servicetest.Program) {
		var first struct{ UserID, Username, Token, RefreshToken, Expires string }
		text := p.MustRun("session", "issue", "--json", "Zoë <b>")
		servicetest.NoError(t, json.Unmarshal([]byte(text), &first))
		printed := regexp.MustCompile(`^\{"userId":"[0-9a-f-]{36}","username":"Zoë <b>","token":"[^"]+","refreshToken":"[0-9a-f]{128}","expires":"[0-9T:-]+Z"\}\n$`)
		servicetest.Is(t, printed.MatchString(text), true, "printed as it should be: %s", text)
		if expires, err := time.Parse(time.RFC3339, first.Expires); err != nil || time.Until(expires) < 14*time.Minute || time.Until(expires) > 15*time.Minute {
			t.Errorf("expires %s", first.Expires)
		}
		// Like every sign-in it ends the session before.
		p.MustRun("session", "issue", "Zoë <b>")
		s := p.ServeReady()
		earlier := s.Is(400, "GET", servicetest.RefreshPath, "", "refreshToken="+first.RefreshToken)
		servicetest.Is(t, earlier, servicetest.InvalidRefresh, "the earlier session")
		production := p.With("APP_ENV=production", "BASE_URL=https://example.org")
		production.Fails("no such user", "session", "issue", "nobody")
		production.MustRun("session", "issue", "Zoë <b>")
		p.Fails("username", "session", "issue", " ")
	})
}

// With the cookies of an expired session calls are refused until one refresh, for which the refresh token is good.
func TestSessionIssueExpired(t *testing.T) {
	eachProgram(t, func(t *testing.T, p *servicetest.Program) {
		s := p.ServeReady()
		for _, setting := range []string{"JWT_TTL=15m", "JWT_TTL=1s", "SESSION_MAX_AGE=1m"} {
			var issued struct {
				Token, RefreshToken string
				Expires             time.Time
			}
			text := p.With(setting).MustRun("session", "issue", "--expired", "--json", "alice")
			if err := json.Unmarshal([]byte(text), &issued); err != nil || time.Since(issued.Expires) < time.Second || time.Since(issued.Expires) > time.Minute {
				t.Errorf("%s: %v: %s", setting, err, text)
			}
			token := "token=" + issued.Token
			cookies := token + "; refreshToken=" + issued.RefreshToken
			servicetest.Contains(t, s.Is(401, "GET", servicetest.Plaza, "", cookies), `"token_expired"`)
			for _, step := range []struct{ cookies, want string }{
				{token, servicetest.SessionNoRefresh}, {cookies, servicetest.Authenticated}, {cookies, servicetest.SessionInvalidRefresh},
			} {
				_, body := s.Do("GET", servicetest.SessionPath, "", step.cookies)
				servicetest.Is(t, body, step.want, "%s: the session", setting)
			}
		}
		production := p.With("APP_ENV=production", "BASE_URL=https://example.org")
		production.Fails("APP_ENV=development", "session", "issue", "--expired", "alice")
	})
}

// JWT_TTL shortens the JWTs of sign-ins and of refreshes, and nothing else.
func TestJWTTTL(t *testing.T) {
	eachProgram(t, func(t *testing.T, p *servicetest.Program) {
		p = p.With("JWT_TTL=5m")
		s := p.ServeReady()
		var issued struct{ RefreshToken, Expires string }
		servicetest.NoError(t, json.Unmarshal([]byte(p.MustRun("session", "issue", "--json", "alice")), &issued))
		header := s.Ask("GET", servicetest.RefreshPath, "", "refreshToken="+issued.RefreshToken).Header
		for _, text := range []string{issued.Expires, header.Get("Session-Expires")} {
			left := time.Until(servicetest.Must(time.Parse(time.RFC3339, text))(t))
			servicetest.Is(t, left > 4*time.Minute && left <= 5*time.Minute, true, "the JWT expires in %v", left)
		}
		servicetest.Is(t, strings.Count(strings.Join(header.Values("Set-Cookie"), "\n"), "; Max-Age=2592000;"), 2, "cookies for 720 hours")
	})
}

func TestUserAdd(t *testing.T) {
	eachProgram(t, func(t *testing.T, p *servicetest.Program) {
		printed := regexp.MustCompile(`^\{"id":"[0-9a-f-]{36}","username":"alice & co"\}\n$`)
		servicetest.Is(t, printed.MatchString(p.MustRun("user", "add", "alice & co")), true, "printed as it should be")
		p.Fails("the username is taken", "user", "add", "alice & co")
		p.MustRun("user", "add", "Alice & co") // names are exact
		p.MustRun("user", "add", strings.Repeat("😀", 100))
		for _, name := range []string{" ", strings.Repeat("x", 101), "\xff"} {
			p.Fails("", "user", "add", "--", name)
		}
		// A key is needed only where something is signed.
		p.With("JWT_SECRET=").MustRun("user", "add", "bob")
		p.With("JWT_SECRET=").MustRun("migrate")
	})
}

func TestDemo(t *testing.T) {
	eachProgram(t, func(t *testing.T, p *servicetest.Program) {
		p.MustRun("user", "add", "bob") // who is there already is used
		p.MustRun("demo")
		s := p.ServeReady()
		cookies := p.Issue("alice")
		before := s.Is(200, "GET", servicetest.Plaza, "", cookies)
		for _, name := range []string{`"alice"`, `"bob"`, `"carol"`, `01980000-0000-7000-8000-000000000001`} {
			servicetest.Contains(t, before, name)
		}
		p.MustRun("demo")
		servicetest.Is(t, s.Is(200, "GET", servicetest.Plaza, "", cookies), before, "the list after a second demo")
		p.With("APP_ENV=production").Fails("development", "demo")
	})
}

// While it serves, the program deletes sessions of which nothing is left, and no others.
func TestServePrunesSessions(t *testing.T) {
	t.Parallel()
	db := servicetest.SQLite(t)
	p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL)
	p.MustRun("session", "issue", "alice")
	p.MustRun("session", "issue", "bob")
	db.Exec("UPDATE sessions SET expires_at = '2020-01-01 00:00:00+00:00' WHERE user_id = (SELECT id FROM users WHERE username = 'alice')")
	p.ServeReady()
	servicetest.Within(t, time.Minute, "one of two sessions is left", func() bool { return db.Count("sessions") == 1 })
	servicetest.Is(t, db.Count("sessions WHERE user_id = (SELECT id FROM users WHERE username = 'bob')"), 1, "sessions of bob")
}

func TestUnknownCommands(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t)
	for _, args := range [][]string{{"fly"}, {"user"}, {"user", "add"}, {"session", "issue"}, {"serve", "--port", "1"}, {"migrate", "x"},
		{"migrate", "postgres://u:s3cret@h/db"}, {"copy", "--form=postgres://u:s3cret@h/db"}} {
		servicetest.Lacks(t, p.Fails("", args...), "s3cret")
	}
}

// What is in flight at SIGTERM or SIGINT completes; then the process ends with status 0.
func TestGracefulStop(t *testing.T) {
	servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
		p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL)
		s := p.ServeReady()
		cookies := p.Issue("alice")
		conn := begin(t, s, cookies)
		s.Signal(map[string]os.Signal{"sqlite": syscall.SIGINT, "postgres": syscall.SIGTERM}[db.Dialect])
		servicetest.Eventually(t, "readiness ends", func() bool { return s.Admin("/readyz") == 503 })
		servicetest.Is(t, s.Admin("/livez"), 200, "/livez while stopping")
		io.WriteString(conn, servicetest.EventBody[len(servicetest.EventBody)-1:])
		response := string(servicetest.Must(io.ReadAll(conn))(t))
		servicetest.Contains(t, response, "HTTP/1.1 200 OK\r\n")
		servicetest.Contains(t, response, "\r\n\r\n"+servicetest.Success)
		servicetest.Is(t, s.Wait(servicetest.Soon), 0, "exit status: %s", s.Log)
	})
}

// begin sends a create but for the last byte of its body.
func begin(t *testing.T, s *servicetest.Process, cookies string) net.Conn {
	t.Helper()
	conn := dial(t, s)
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nCookie: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\nExpect: 100-continue\r\n\r\n",
		servicetest.Plaza, cookies, len(servicetest.EventBody))
	// 100 Continue says that the handler has begun to read.
	line := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
	conn.SetReadDeadline(time.Now().Add(servicetest.Soon))
	servicetest.Must(io.ReadFull(conn, line))(t)
	servicetest.Contains(t, string(line), "HTTP/1.1 100")
	io.WriteString(conn, servicetest.EventBody[:len(servicetest.EventBody)-1])
	return conn
}

// dial connects to the public listener.
func dial(t *testing.T, s *servicetest.Process) net.Conn {
	t.Helper()
	conn := servicetest.Must(net.Dial("tcp", strings.TrimPrefix(s.URL, "http://")))(t)
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t, "SHUTDOWN_TIMEOUT=1m")
	s := p.ServeReady()
	begin(t, s, p.Issue("alice"))
	s.Signal(syscall.SIGTERM)
	servicetest.Eventually(t, "readiness ends", func() bool { return s.Admin("/readyz") == 503 })
	s.Signal(syscall.SIGTERM)
	servicetest.Is(t, s.Wait(servicetest.Soon) == 0, false, "the request in flight was cut, yet the exit status is 0")
}

// A stop waits for who reads, and ends at SHUTDOWN_TIMEOUT, whoever does not send or does not read.
func TestStopWaitsForWhoReads(t *testing.T) {
	t.Parallel()
	db := servicetest.SQLite(t)
	p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL, "SHUTDOWN_TIMEOUT=15s")
	servicetest.Seed(db, 1, 60, 0)
	db.Exec("UPDATE events SET world_id = 'plaza', description = ?", strings.Repeat("😀", 5000))
	s := p.ServeReady()
	cookies := p.Issue("alice")
	send := func(text string) net.Conn {
		conn := dial(t, s)
		conn.(*net.TCPConn).SetReadBuffer(64 << 10)
		io.WriteString(conn, text)
		return conn
	}
	get := "GET " + servicetest.Plaza + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nCookie: " + cookies + "\r\n"
	send("") // sends nothing
	send(get)
	begin(t, s, cookies)
	unread, reads := send(get+"\r\n"), send(get+"\r\n")
	for _, conn := range []net.Conn{unread, reads} {
		servicetest.Must(io.ReadFull(conn, make([]byte, 1000)))(t)
	}
	s.Signal(syscall.SIGINT)
	read := 1000
	for tick := time.NewTicker(100 * time.Millisecond); ; <-tick.C {
		n, err := io.CopyN(io.Discard, reads, 32<<10)
		read += int(n)
		if err != nil {
			break
		}
	}
	if read < 60*20000 {
		t.Errorf("who reads got %d bytes", read)
	}
	servicetest.Is(t, s.Wait(25*time.Second), 0, "exit status") // who does not read has 30 s
}

func TestListenersInUse(t *testing.T) {
	t.Parallel()
	l := servicetest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	for _, name := range []string{"LISTEN_ADDR", "ADMIN_ADDR"} {
		p := servicetest.NewProgram(t, name+"="+l.Addr().String())
		failsInTheEnd(t, p, `level=ERROR msg=failed command=serve error="`+name+": ", "serve")
	}
}

// An empty ADMIN_ADDR turns the operator's listener off; nothing of it is ever public.
func TestAdminOff(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t)
	s := p.ServeReady()
	for _, path := range []string{"/metrics", "/livez", "/readyz", "/debug/pprof/", "/debug/vars"} {
		s.Is(404, "GET", path, "", "")
	}
	for _, path := range []string{servicetest.SessionPath, servicetest.Plaza, "/docs", "/debug/pprof/cmdline"} {
		servicetest.Is(t, s.Admin(path), 404, "%s on the admin listener", path)
	}
	s.Stop()

	command := p.With("ADMIN_ADDR=").Command("serve")
	servicetest.NoError(t, command.Start())
	defer func() {
		command.Process.Kill()
		command.Wait()
	}()
	public := servicetest.NewBrowser(s.URL, nil)
	servicetest.Eventually(t, "serve is up", func() bool { return public.Do("GET", servicetest.SessionPath, "").Status == 400 })
	if _, err := net.Dial("tcp", p.Getenv("ADMIN_ADDR")); err == nil {
		t.Error("the admin listener is on")
	}
}

// The real listener bounds headers and the time that they take to come.
func TestListenerLimits(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t)
	s := p.ServeReady()
	long := "token=" + strings.Repeat("x", 4091)
	body := s.Is(400, "GET", servicetest.SessionPath, "", long+"; refreshToken="+servicetest.RefreshToken(1))
	servicetest.Is(t, body, servicetest.SessionInvalid, "with cookies as large as they may be")
	send := func(text string) (response string, err error) {
		conn := dial(t, s)
		io.WriteString(conn, text)
		conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		read, err := io.ReadAll(conn)
		return string(read), err
	}
	// What it does not read ends the connection with an error. That the response came before is what counts.
	response, _ := send("GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 16<<10) + "\r\n\r\n") // more than 16 KiB
	servicetest.Contains(t, response, "HTTP/1.1 431 ")
	_, err := send("GET / HTTP/1.1\r\nX: ")
	servicetest.Is(t, err, nil, "the error where unfinished headers are cut off")
}
