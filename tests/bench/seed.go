package main

import (
	"fmt"
	"hash/crc32"
	"slices"
)

// Statements are for PostgreSQL, and for SQLite without their types (::uuid). Numbers in ids are decimal.

// idOf is the id of user, session or event n. Events of a kind count on from world to world, from 0.
func idOf(kind string, n int) string { return fmt.Sprintf("%s%012d", idPrefix(kind), n) }

func idPrefix(kind string) string {
	return fmt.Sprintf("%08x-0000-7000-8000-", crc32.ChecksumIEEE([]byte(kind)))
}

// idIn is idOf in SQL.
func idIn(kind, n string) string {
	return fmt.Sprintf("('%s' || substr((1000000000000 + %s)::text, 2))::uuid", idPrefix(kind), n)
}

// once is when everything was: lists then are in the order of ids.
const once = "'2030-01-01 10:00:00+00:00'"

// seeds are what all rows need.
func seeds() []string {
	return slices.Concat([]string{seedUsers, seedSessions}, seedWorlds("small", worlds, 10, 5), seedWorlds("middle", worlds, 100, 20),
		seedWorlds("changing", worlds, 100, 20), seedWorlds("big", bigWorlds, 1000, 100), seedWorlds("join", 1, joinEvents, 0),
		seedWorlds("leave", 1, leaveEvents, users), seedWorlds("full", 1, 1, users), seedWorlds("tiny", 200, 1, 20))
}

// seedUsers makes users with numbers that count up.
var seedUsers = fmt.Sprintf(`WITH RECURSIVE i (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < %d)
	INSERT INTO users (id, username, created_at) SELECT %s, 'user' || n, %s FROM i`, users, idIn("user", "n"), once)

// refreshTokenOf is the first refresh token of a user. It begins with the user's handle.
func refreshTokenOf(user int) string { return fmt.Sprintf("%032d%096d", user, 0) }

// seedSessions makes a session for each user, in PostgreSQL.
var seedSessions = fmt.Sprintf(`INSERT INTO sessions (id, user_id, handle_hash, created_at, device, network, refreshed_at, expires_at, token_hash, spent)
	SELECT %s, id, sha256(handle::bytea), now(), 'Firefox on Linux', '192.0.2.0/24', now(), now() + interval '30 days',
		sha256((handle || repeat('0', 96))::bytea), ''
	FROM users, lpad(number::text, 32, '0') handle`, idIn("session", "number"))

// seedWorlds makes worlds of a kind, of so many events of so many RSVPs each.
func seedWorlds(kind string, worlds, events, rsvps int) []string {
	statements := []string{fmt.Sprintf(`WITH RECURSIVE i (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM i WHERE n + 1 < %d)
		INSERT INTO events (id, world_id, creator_id, name, description, scheduled_at, created_at)
		SELECT %s, '%s-' || (n / %d), '%s', 'Event ' || (1 + n %% %[4]d), 'Bring a coat, a lamp and something to eat. Number ' || (1 + n %% %[4]d), %[6]s, %[6]s FROM i`,
		worlds*events, idIn(kind, "n"), kind, events, idOf("user", 1), once)}
	if rsvps > 0 {
		statements = append(statements, fmt.Sprintf(`WITH RECURSIVE j (m) AS (SELECT 1 UNION ALL SELECT m + 1 FROM j WHERE m < %d)
			INSERT INTO rsvps (event_number, user_number, username, created_at)
			SELECT e.number, u.number, u.username, %s FROM events e, j, users u
			WHERE e.world_id LIKE '%s-%%' AND u.number = 1 + (e.number * 37 + m) %% %d ORDER BY e.number, m`,
			rsvps, once, kind, users))
	}
	return statements
}
