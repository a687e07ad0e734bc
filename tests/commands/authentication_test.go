package commands

import (
	"net"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"worldevents/tests/servicetest"
)

// A server in the place of the database, which knows no password, gets no statement from who requires that it proves to know
// one: neither when it says that anybody is welcome, nor when it leaves authentication out. PostgreSQL's libpq documents
// require_auth and channel_binding.
func TestServerWithoutAuthentication(t *testing.T) {
	t.Parallel()
	ready := []pgproto3.BackendMessage{&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}}, &pgproto3.ReadyForQuery{TxStatus: 'I'}}
	for name, begin := range map[string][]pgproto3.BackendMessage{
		"welcomes anybody": append([]pgproto3.BackendMessage{&pgproto3.AuthenticationOk{}}, ready...),
		"skips it":         ready,
	} {
		for parameters, trusting := range map[string]bool{"": name == "welcomes anybody", "&require_auth=scram-sha-256": false, "&channel_binding=require": false} {
			t.Run(name+parameters, func(t *testing.T) {
				t.Parallel()
				address, statements := impostor(t, begin)
				secret := url.UserPassword("owner", "s3cret-of-the-owner").String()
				p := servicetest.NewEmptyProgram(t, "DATABASE_URL=postgres://"+secret+"@"+address+"/db?sslmode=disable"+parameters, "DB_TIMEOUT=1s")
				line := p.Fails("", "user", "list")
				servicetest.Lacks(t, line, "s3cret")
				servicetest.Is(t, statements.Load() > 0, trusting, "the server got a statement, and said was %s", line)
			})
		}
	}
}

// impostor listens as a PostgreSQL server that begins each connection in this way. It counts what it is asked, and answers
// none of it.
func impostor(t *testing.T, begin []pgproto3.BackendMessage) (address string, statements *atomic.Int64) {
	t.Helper()
	statements = new(atomic.Int64)
	return listenAs(t, func(conn net.Conn) {
		backend := pgproto3.NewBackend(conn, conn)
		if _, err := backend.ReceiveStartupMessage(); err != nil {
			return
		}
		for _, message := range begin {
			backend.Send(message)
		}
		if backend.Flush() != nil {
			return
		}
		message, err := backend.Receive()
		if _, bye := message.(*pgproto3.Terminate); err == nil && !bye {
			statements.Add(1)
		}
	}), statements
}
