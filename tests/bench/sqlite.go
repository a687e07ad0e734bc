package main

import (
	"database/sql"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"worldevents/tests/servicetest"
)

// sqliteFile makes a seeded file.
func (b *bench) sqliteFile() *servicetest.Database {
	db := servicetest.SQLite(b)
	seeds := []string{seedUsers, fmt.Sprintf(`INSERT INTO sessions (id, user_id, handle_hash, created_at, device, network, refreshed_at, expires_at, spent)
		SELECT %s, id, randomblob(32), created_at, '', '', created_at, created_at, x'' FROM users`, idIn("session", "number"))}
	for _, statement := range append(append(seeds, seedWorlds("middle", worlds, 100, 20)...), seedWorlds("join", 1, joinEvents, 0)...) {
		db.Exec(strings.NewReplacer("::text", "", "::uuid", "", "::timestamptz", "").Replace(statement))
	}
	return db
}

// onDriver repeats the list or the join without a server around the driver.
func (b *bench) onDriver(work string) func(n int) (do func()) {
	readers := b.sqliteFile()
	readers.DB.SetMaxOpenConns(8)
	readers.DB.SetMaxIdleConns(8)
	writer := servicetest.OpenSQLite(b, readers.File())
	writer.DB.SetMaxOpenConns(1) // as in SQLite
	read := must(readers.DB.Prepare(`
		SELECT e.id, e.name, e.description, e.scheduled_at, (
			SELECT group_concat(username, char(10)) FROM (
				SELECT username FROM rsvps WHERE event_number = e.number ORDER BY created_at, user_number
			))
		FROM events e WHERE e.world_id = ? AND EXISTS (SELECT 1 FROM sessions WHERE id = ? AND user_id = ? AND revoked_at IS NULL)
		ORDER BY e.scheduled_at, e.id`))
	insert := must(writer.DB.Prepare(`
		INSERT INTO rsvps (event_number, created_at, user_number, username)
		SELECT e.number, ?, u.number, username FROM events e, users u WHERE e.id = ? AND u.id = ?
		AND EXISTS (SELECT 1 FROM sessions WHERE id = ? AND user_id = u.id AND revoked_at IS NULL) ON CONFLICT DO NOTHING`))
	var joins atomic.Int64
	if work == "SQLite: join" {
		return func(int) func() {
			return func() {
				n := int(joins.Add(1)) - 1
				must(insert.Exec(time.Now().UTC(), idOf("join", n/users), idOf("user", 1+n%users), idOf("session", 1+n%users)))
			}
		}
	}
	return func(n int) func() {
		var b []byte
		return func() {
			rows := must(read.Query(fmt.Sprint("middle-", n), idOf("session", 1), idOf("user", 1)))
			b = append(b[:0], `{"events":[`...) // as the service returns it
			for rows.Next() {
				var id, name, description string
				var at time.Time
				var usernames sql.NullString
				check(rows.Scan(&id, &name, &description, &at, &usernames))
				b = append(appendEvent(b, id, []byte(name), []byte(description), at, []byte(usernames.String)), ',')
			}
			check(rows.Err())
		}
	}
}
