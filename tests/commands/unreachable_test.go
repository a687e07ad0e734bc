package commands

import (
	"io"
	"net"
	"regexp"
	"strings"
	"testing"

	"worldevents/tests/servicetest"
)

// listenAs listens and has speak talk to whoever connects.
func listenAs(t *testing.T, speak func(net.Conn)) (address string) {
	t.Helper()
	return listenOn(t, "127.0.0.1", speak)
}

func listenOn(t *testing.T, host string, speak func(net.Conn)) (address string) {
	t.Helper()
	listener := servicetest.Must(net.Listen("tcp", net.JoinHostPort(host, "0")))(t)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				speak(conn)
			}()
		}
	}()
	return listener.Addr().String()
}

// Every command says in words which host of the database does not do, ends with status 1, and shows no password.
func TestDatabaseOfNoUse(t *testing.T) {
	t.Parallel()
	says := func(text string) func(net.Conn) {
		return func(conn net.Conn) {
			conn.Read(make([]byte, 64))
			io.WriteString(conn, text)
		}
	}
	commands := []string{
		"migrate", "demo", "user add alice", "user list", "user show alice", "user rename alice bob", "user block alice", "user unblock alice", "user remove alice",
		"session issue alice", "session list alice", "session revoke --all", "event list --world plaza", "event show " + servicetest.IDOf(1),
		"event edit " + servicetest.IDOf(1) + " --name n", "event remove " + servicetest.IDOf(1), "event prune --before 2020-01-01T00:00:00Z",
		"copy --to sqlite:copy.db", "replay-audit /dev/null",
	}
	for _, test := range []struct{ name, host, words string }{
		{"does not resolve", "nowhere.invalid", "lookup nowhere.invalid"},
		{"refuses", "127.0.0.1:1", "connection refused"},
		{"is silent", listenAs(t, func(conn net.Conn) { io.Copy(io.Discard, conn) }), "no response in time"},
		{"closes", listenAs(t, says("")), "closes the connection"},
		{"speaks HTTP", listenAs(t, says("HTTP/1.1 400 Bad Request\r\n\r\n")), "does not speak PostgreSQL's protocol"},
		{"speaks MySQL", listenAs(t, says("J\x00\x00\x00\x0a8.0.36\x00")), "does not speak PostgreSQL's protocol"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			url := "postgres://me:s3cr3t@" + test.host + "/db?connect_timeout=1&sslmode=disable"
			servicetest.Finds(t, servicetest.NewProgram(t, "DATABASE_URL="+url), "fault", "^"+regexp.QuoteMeta(test.host)+"(:5432)?: no connection: .*"+test.words)
			several := strings.Replace(url, "/db", ",127.0.0.1:1/db", 1)
			said := "^" + regexp.QuoteMeta(test.host) + "(:5432)?,127.0.0.1:1: no connection: .*" + test.words + ".*; connection refused$"
			if test.name == "refuses" { // twice the same
				said = "^127.0.0.1:1: no connection: connection refused$"
			}
			servicetest.Finds(t, servicetest.NewProgram(t, "DATABASE_URL="+several), "fault", said)
			// All commands are tried where it refuses, which is soonest, and one of them elsewhere: they open it in the same way.
			tried := commands[3:4]
			if test.name == "refuses" {
				tried = commands
			}
			for _, command := range tried {
				line := servicetest.NewProgram(t, "DATABASE_URL="+url).Fails(test.host, strings.Fields(command)...)
				servicetest.Lacks(t, line, "s3cr3t")
			}
			servicetest.Lacks(t, servicetest.NewProgram(t).Fails(test.host, "copy", "--to", url), "s3cr3t")
		})
	}
}
