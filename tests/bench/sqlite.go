package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	_ "modernc.org/sqlite"
)

// sqlite measures the embedded default against the same driver without a service around it.
func (b *bench) sqlite() error {
	path := filepath.Join(b.dir, "bench.db")
	service, err := b.service("sqlite:"+path, reads)
	if err != nil {
		return err
	}
	defer service.stop()
	// The settings of the service, with as many readers.
	open := func(conns int) (*sql.DB, error) {
		db, err := sql.Open("sqlite", "file:"+path+"?"+url.Values{
			"_txlock": {"immediate"}, "_time_format": {"sqlite"}, "_timezone": {"UTC"}, "_texttotime": {"1"},
			"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)"},
		}.Encode())
		if err == nil {
			db.SetMaxOpenConns(conns)
			db.SetMaxIdleConns(conns)
		}
		return db, err
	}
	db, err := open(8)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := seedSQLite(db, b.toJoin); err != nil {
		return err
	}
	list, err := db.Prepare(listInSQLite)
	if err != nil {
		return err
	}
	c := newCrowd(users)
	var direct bytes.Buffer
	if err := listSQLite(list, worldOf("middle", 0), &direct); err != nil {
		return err
	}
	if _, body, err := fetch(service.addr, c.list(worldOf("middle", 0))); err != nil || !bytes.Equal(body, direct.Bytes()) {
		return errors.Join(errors.New("SQLite: different bytes from the driver"), err)
	}
	err = b.row("SQLite: list 100 x 20, read each time", "0.5",
		calls("service", service, connections, c.lists("middle", worlds)),
		contender{name: "the query on the driver", run: func(warmup, round time.Duration) (float64, int, error) {
			return spread(connections, warmup, round, func(connection int) func() error {
				var buffer bytes.Buffer
				return func() error {
					buffer.Reset()
					return listSQLite(list, worldOf("middle", connection%worlds), &buffer)
				}
			})
		}})
	if err != nil {
		return err
	}
	disk, err := newDisk(filepath.Join(b.dir, "fsync"))
	if err != nil {
		return err
	}
	defer disk.Close()
	writer, err := open(1) // SQLite has one at a time
	if err != nil {
		return err
	}
	defer writer.Close()
	insert, err := writer.Prepare(`INSERT INTO rsvps (event_number, created_at, user_number, username)
		SELECT e.number, ?, u.number, username FROM events e, users u WHERE e.id = ? AND u.id = ?
		AND EXISTS (SELECT 1 FROM sessions WHERE id = ? AND user_id = u.id AND revoked_at IS NULL) ON CONFLICT DO NOTHING`)
	if err != nil {
		return err
	}
	joined := 0
	joins := calls("service", service, connections, c.join(b.toJoin)(0))
	err = b.row("SQLite: join", "",
		joins,
		contender{name: "the statement on the driver", run: func(warmup, round time.Duration) (float64, int, error) {
			return paced(warmup, round, func() error {
				joined++
				user := 1 + joined%users
				_, err := insert.Exec(time.Now().UTC(), eventID(worldOf("join", 1), 1+joined/users), userID(user), sessionID(user))
				return err
			})
		}})
	if err != nil {
		return err
	}
	return b.row("SQLite: join, and the disk", "",
		joins,
		contender{name: "fdatasyncs of 16 KiB", run: func(warmup, round time.Duration) (float64, int, error) {
			return paced(warmup, round, disk.write)
		}})
}

// spread is load without a network: each connection calls its function again and again.
func spread(connections int, warmup, round time.Duration, of func(connection int) func() error) (float64, int, error) {
	return together(connections, func(connection int) (float64, int, error) {
		return paced(warmup, round, of(connection))
	})
}

// disk is a file that is overwritten and synced, as a write-ahead log is: a join changes a page in each of three or
// four trees.
type disk struct {
	*os.File
	at   int64
	page []byte
}

const diskSize = 4 << 20

func newDisk(path string) (*disk, error) {
	f, err := os.Create(path)
	if err == nil {
		_, err = f.Write(make([]byte, diskSize))
	}
	return &disk{f, 0, make([]byte, 16<<10)}, err
}

func (d *disk) write() error {
	d.page[0]++
	if _, err := d.WriteAt(d.page, d.at); err != nil {
		return err
	}
	d.at = (d.at + int64(len(d.page))) % diskSize
	return syscall.Fdatasync(int(d.Fd()))
}

const listInSQLite = `
	SELECT e.id, e.name, e.description, e.scheduled_at, (
		SELECT group_concat(username, char(10)) FROM (
			SELECT username FROM rsvps WHERE event_number = e.number ORDER BY created_at, user_number
		))
	FROM events e WHERE e.world_id = ? AND EXISTS (SELECT 1 FROM sessions WHERE id = ? AND user_id = ? AND revoked_at IS NULL)
	ORDER BY e.scheduled_at, e.id`

// listSQLite writes the list of a world, as the service returns it.
func listSQLite(list *sql.Stmt, world string, out *bytes.Buffer) error {
	rows, err := list.Query(world, sessionID(1), userID(1))
	if err != nil {
		return err
	}
	defer rows.Close()
	b := append(out.AvailableBuffer(), `{"events":[`...)
	for first := true; rows.Next(); first = false {
		var id, name, description string
		var scheduledAt time.Time
		var usernames sql.NullString
		if err := rows.Scan(&id, &name, &description, &scheduledAt, &usernames); err != nil {
			return err
		}
		if !first {
			b = append(b, ',')
		}
		b = append(append(b, `{"id":"`...), id...)
		b = appendRest(append(b, '"'), []byte(name), []byte(description), scheduledAt, []byte(usernames.String))
	}
	out.Write(append(b, "]}"...))
	return rows.Err()
}

func seedSQLite(db *sql.DB, joinEvents int) error {
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	exec := func(query string, args ...any) {
		if err == nil {
			_, err = tx.Exec(query, args...)
		}
	}
	now := time.Now().UTC()
	for u := 1; u <= users; u++ {
		exec("INSERT INTO users (id, username, created_at) VALUES (?, ?, ?)", userID(u), "user"+strconv.Itoa(u), now)
		handle := sha256.Sum256([]byte(strconv.Itoa(u)))
		exec(`INSERT INTO sessions (id, user_id, handle_hash, created_at, device, network, refreshed_at, expires_at, spent)
			VALUES (?, ?, ?, ?, '', '', ?, ?, x'')`, sessionID(u), userID(u), handle[:], now, now, now)
	}
	world := func(name string, events, rsvps int) {
		for e := 1; e <= events; e++ {
			at := time.Date(2030, 1, 1, e, 0, 0, 0, time.UTC)
			exec("INSERT INTO events (id, world_id, creator_id, name, description, scheduled_at, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
				eventID(name, e), name, userID(1), fmt.Sprint("Event ", e), fmt.Sprint("Bring a coat, a lamp and something to eat. Number ", e), at, now)
			for j := range rsvps {
				u := 1 + (e*37+j)%users
				exec(`INSERT INTO rsvps (event_number, created_at, user_number, username)
					SELECT e.number, ?, u.number, username FROM events e, users u WHERE e.id = ? AND u.id = ?`,
					now.Add(time.Duration(j)*time.Second), eventID(name, e), userID(u))
			}
		}
	}
	for w := range worlds {
		world(worldOf("middle", w), 100, 20)
	}
	for w := range 2 {
		world(worldOf("join", w), joinEvents, 0)
	}
	if err != nil {
		return err
	}
	return tx.Commit()
}
