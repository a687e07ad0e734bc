package main

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Ids count up, as those of the service do (UUIDv7).
const (
	userIDs    = "01900000-0000-7000-8000-"
	sessionIDs = "01900000-0000-7000-9000-"
	eventIDs   = "0191"
)

func userID(n int) string { return fmt.Sprintf("%s%012x", userIDs, n) }

// sessionID is the id of the one session of user n.
func sessionID(n int) string { return fmt.Sprintf("%s%012x", sessionIDs, n) }

// worldOf is the name of one of several worlds of a kind.
func worldOf(kind string, n int) string { return fmt.Sprintf("%s-%d", kind, n) }

// eventID is the id of event n, from 1, of a world.
func eventID(world string, n int) string { return fmt.Sprintf("%s%012x", idsOf(world), n) }

// idsOf is what the ids of a world's events begin with.
func idsOf(world string) string {
	sum := crc32.ChecksumIEEE([]byte(world))
	return fmt.Sprintf("%s%04x-%04x-7000-8000-", eventIDs, sum>>16, sum&0xffff)
}

// seedUsers makes the users 1 to n.
func seedUsers(n int) string {
	return fmt.Sprintf(`INSERT INTO users (id, username, created_at)
		SELECT ('%s' || lpad(to_hex(i), 12, '0'))::uuid, 'user' || i, now() FROM generate_series(1, %d) i`, userIDs, n)
}

// seedSessions makes a session for each of the users 1 to n, with the refresh token refreshTokenOf(n).
func seedSessions(n int) string {
	return fmt.Sprintf(`INSERT INTO sessions (id, user_id, handle_hash, created_at, device, network, refreshed_at, expires_at, token_hash, spent)
		SELECT ('%s' || lpad(to_hex(i), 12, '0'))::uuid, ('%s' || lpad(to_hex(i), 12, '0'))::uuid, sha256(convert_to(handle, 'UTF8')),
			now(), 'Firefox on Linux', '192.0.2.0/24', now(), now() + interval '30 days',
			sha256(convert_to(handle || repeat('0', 96), 'UTF8')), ''
		FROM generate_series(1, %d) i, lpad(i::text, 32, '0') handle`, sessionIDs, userIDs, n)
}

// refreshTokenOf is the first refresh token of user n. Its handle, the first 32 digits, is the user's own.
func refreshTokenOf(n int) string { return fmt.Sprintf("%032d%096d", n, 0) }

// seedWorld makes one of the worlds of a kind, with events of so many RSVPs each.
func seedWorld(kind string, n, events, rsvps int) string {
	return seedWorldOf(kind, n, events, rsvps, users)
}

// seedWorldOf is seedWorld among another number of users.
func seedWorldOf(kind string, n, events, rsvps, users int) string {
	world := worldOf(kind, n)
	return fmt.Sprintf(`DO $$ BEGIN
		INSERT INTO events (id, world_id, creator_id, name, description, scheduled_at, created_at)
			SELECT ('%[1]s' || lpad(to_hex(i), 12, '0'))::uuid, '%[2]s', '%[3]s1', 'Event ' || i,
				'Bring a coat, a lamp and something to eat. Number ' || i, timestamptz '2030-01-01 00:00Z' + i * interval '1 hour', now()
			FROM generate_series(1, %[4]d) i;
		INSERT INTO rsvps (event_number, user_number, username, created_at)
			SELECT e.number, u.number, username, timestamptz '2029-01-01 00:00Z' + j * interval '1 second'
			FROM generate_series(1, %[4]d) i, generate_series(1, %[5]d) j, LATERAL (SELECT 1 + (i * 37 + j) %% %[6]d) one(n),
				events e, users u
			WHERE e.id = ('%[1]s' || lpad(to_hex(i), 12, '0'))::uuid AND u.username = 'user' || n
			ORDER BY i, j;
	END $$`,
		idsOf(world), world, userIDs+"00000000000", events, rsvps, users)
}

// crowd are the users that the load generator acts as: the JWT of each, from 1 on.
type crowd []string

func newCrowd(n int) crowd {
	tokens := make(crowd, n+1)
	for i := range tokens {
		tokens[i] = sign(userID(i), sessionID(i), "user"+strconv.Itoa(i), time.Now(), time.Hour)
	}
	return tokens
}

func (c crowd) users() int { return len(c) - 1 }

// get is a request of the first user. header is whole lines.
func (c crowd) get(path, header string) []byte { return c.getAs(1, path, header) }

func (c crowd) getAs(user int, path, header string) []byte {
	return []byte("GET " + path + " HTTP/1.1\r\nHost: api.example.org\r\nCookie: token=" + c[user] + "\r\n" + header + "\r\n")
}

func (c crowd) list(world string) []byte { return c.get("/api/event/"+world, "") }

// always sends the same request.
func always(request []byte) requests {
	return func([]byte, *response) []byte { return request }
}

// lists spreads the connections over worlds of a kind. Each is another user's: large lists of one user share what one user
// may have of the service's memory.
func (c crowd) lists(kind string, worlds int) func(connection int) requests {
	return func(connection int) requests {
		return always(c.getAs(1+connection%c.users(), "/api/event/"+worldOf(kind, connection%worlds), ""))
	}
}

// unchanged is lists of clients who have them: they send the ETag of the response before.
func (c crowd) unchanged(kind string, worlds int) func(*side) func(connection int) requests {
	return func(*side) func(int) requests {
		return func(connection int) requests {
			user, path, etag := 1+connection%c.users(), "/api/event/"+worldOf(kind, connection%worlds), ""
			request := c.getAs(user, path, "")
			return func(_ []byte, last *response) []byte {
				if last.etag != etag {
					etag = last.etag
					request = c.getAs(user, path, "If-None-Match: "+etag+"\r\n")
				}
				return request
			}
		}
	}
}

// rsvps sends start and an event id, for all users one event after the other, and goes on from round to round.
func (c crowd) rsvps(start, kind string, events int) func(group int) func(connection int) requests {
	return func(group int) func(int) requests {
		world := worldOf(kind, group)
		var n atomic.Int64
		return func(int) requests {
			return func(b []byte, _ *response) []byte {
				i := int(n.Add(1)) - 1
				if i >= events*c.users() {
					return nil
				}
				b = append(b, start...)
				b = append(b, eventID(world, 1+i/c.users())...)
				b = append(b, " HTTP/1.1\r\nHost: api.example.org\r\nCookie: token="...)
				b = append(b, c[1+i%c.users()]...)
				return append(b, "\r\n\r\n"...)
			}
		}
	}
}

func (c crowd) join(events int) func(group int) func(connection int) requests {
	return c.rsvps("POST /api/event/join/", "join", events)
}

func (c crowd) leave(events int) func(group int) func(connection int) requests {
	return c.rsvps("DELETE /api/event/", "leave", events)
}

func (c crowd) create(n int) func(connection int) requests {
	return func(connection int) requests { return always(c.creation(1+connection, worldOf("create", n))) }
}

// createWithKey is create with an Idempotency-Key that is another one each time.
func (c crowd) createWithKey(n int) func(connection int) requests {
	var key atomic.Int64
	return func(connection int) requests {
		request := c.creation(1+connection, worldOf("create", n))
		return func(b []byte, _ *response) []byte {
			line, rest, _ := bytes.Cut(request, []byte("\r\n"))
			return fmt.Appendf(append(b, line...), "\r\nIdempotency-Key: key-%d\r\n%s", key.Add(1), rest)
		}
	}
}

// creation is a request of a user that creates an event.
func (c crowd) creation(user int, world string) []byte {
	const body = `{"name":"Boat trip","description":"Bring a coat, a lamp and something to eat.","scheduledAt":"2030-06-01T10:00:00+02:00"}`
	return fmt.Appendf(nil, "POST /api/event/%s HTTP/1.1\r\nHost: api.example.org\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\nCookie: token=%s\r\n\r\n%s", world, len(body), c[user], body)
}

// write is a request of a user without a body.
func (c crowd) write(method, path string, user int) []byte {
	return []byte(method + " " + path + " HTTP/1.1\r\nHost: api.example.org\r\nCookie: token=" + c[user] + "\r\n\r\n")
}

// refresh spends the refresh tokens of the users from first on, one user for each connection.
func (c crowd) refresh(first int) func(connection int) requests {
	var mu sync.Mutex
	responses := make(map[int]*response) // the last of each connection: the next round goes on from there
	return func(connection int) requests {
		mu.Lock()
		defer mu.Unlock()
		token := refreshTokenOf(first + connection)
		if before := responses[connection]; before != nil {
			token = before.refreshToken
		}
		return func(b []byte, last *response) []byte {
			if last.refreshToken != "" {
				token = last.refreshToken
			} else {
				mu.Lock()
				responses[connection] = last
				mu.Unlock()
			}
			b = append(b, "GET /api/auth/refresh HTTP/1.1\r\nHost: api.example.org\r\nCookie: refreshToken="...)
			b = append(b, token...)
			return append(b, "\r\n\r\n"...)
		}
	}
}
