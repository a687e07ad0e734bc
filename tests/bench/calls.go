package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"worldevents/tests/servicetest"
)

const (
	poolSize                = 16 // database connections of a server
	users                   = 2000
	joinEvents, leaveEvents = 500, 200 // for all users each: a row ends when they run out
	worlds, bigWorlds       = 16, 2    // of a kind
)

// call is the next request of a connection, or nil if there is none left.
type call func(s *server, c *client) []byte

// tokens are the JWTs of the users, from 1 on.
var tokens = sync.OnceValue(func() (all []string) {
	for user := range users + 1 {
		all = append(all, sign(idOf("user", user), idOf("session", user), fmt.Sprint("user", user), 10*time.Hour))
	}
	return all
})

// sign makes a JWT as the service does.
func sign(user, session, username string, ttl time.Duration) string {
	now := time.Now()
	return servicetest.Sign(jwtKey, `{"alg":"HS256","kid":"`+servicetest.KeyID(jwtKey)+`","typ":"JWT"}`,
		fmt.Sprintf(`{"sub":%q,"exp":%d,"iat":%d,"jti":%q,"sid":%q,"username":%q}`, user, now.Add(ttl).Unix(), now.Unix(), session, session, username))
}

// request is one of a user. headers are whole lines.
func (c *client) request(user int, line, headers string) []byte {
	return c.requestBy("token="+tokens()[user], line, headers)
}

func (c *client) requestBy(cookie, line, headers string) []byte {
	c.buf = fmt.Appendf(c.buf[:0], "%s HTTP/1.1\r\nHost: api.example.org\r\nCookie: %s\r\n%s\r\n", line, cookie, headers)
	return c.buf
}

// list asks for the lists of some worlds of a kind. Each connection is another user's: large lists of one user share what one may have of
// the service's memory.
func list(kind string, worlds int, headers string) call {
	return func(_ *server, c *client) []byte {
		return c.request(1+c.n, fmt.Sprintf("GET /api/event/%s-%d", kind, c.n%worlds), headers)
	}
}

// unchanged is list of clients that have it.
func unchanged(s *server, c *client) []byte {
	return list("middle", worlds, "If-None-Match: "+c.etag+"\r\n")(s, c)
}

// forAll has all users do something to one event of a kind after the other.
func forAll(line, kind string, events int, counter func(s *server) *atomic.Int64) call {
	return func(s *server, c *client) []byte {
		n := int(counter(s).Add(1)) - 1
		if n >= events*users {
			return nil
		}
		return c.request(1+n%users, line+idOf(kind, n/users), "")
	}
}

var (
	join  = forAll("POST /api/event/join/", "join", joinEvents, func(s *server) *atomic.Int64 { return &s.joins })
	leave = forAll("DELETE /api/event/", "leave", leaveEvents, func(s *server) *atomic.Int64 { return &s.leaves })
)

// joinAgain joins where all users are already.
func joinAgain(_ *server, c *client) []byte {
	return c.request(1+c.n, "POST /api/event/join/"+idOf("full", 0), "")
}

func create(_ *server, c *client) []byte { return c.creation("create-0", "") }

func createWithKey(s *server, c *client) []byte {
	return c.creation("create-0", fmt.Sprintf("Idempotency-Key: key-%d\r\n", s.keys.Add(1)))
}

func (c *client) creation(world, headers string) []byte {
	const body = `{"name":"Boat trip","description":"Bring a coat, a lamp and something to eat.","scheduledAt":"2030-06-01T10:00:00+02:00"}`
	headers += fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	c.buf = append(c.request(1+c.n, "POST /api/event/"+world, headers), body...)
	return c.buf
}

func session(_ *server, c *client) []byte { return c.request(1, "GET /api/auth/session", "") }

// refresh spends the refresh tokens of one user for each connection.
func refresh(_ *server, c *client) []byte {
	if c.refreshToken == "" {
		c.refreshToken = refreshTokenOf(1 + c.n)
	}
	return c.requestBy("refreshToken="+c.refreshToken, "GET /api/auth/refresh", "")
}

// ownSession is session with a JWT that the server has signed.
func ownSession(s *server, c *client) []byte {
	if c.token == "" {
		return refresh(s, c)
	}
	return c.requestBy("token="+c.token, "GET /api/auth/session", "")
}
