package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// row is a line of the table for each number of connections.
type row struct {
	work    string
	conns   []int
	call    call
	setting string // of the service, besides the usual ones
	against string
	beside  func(s *server) (end func()) // begins what goes on beside each turn
}

const (
	service   = "service"
	control   = "the same again"
	reference = "reference"
	unmarked  = "reference without marks"
	driver    = "the statement on the driver"

	readEachTime = "LIST_CACHE=0"
	onSQLite     = "SQLite"
	byKey        = "JWT_PRIVATE_KEY_FILE=jwt.pem"
	bySecret     = "" // without a setting
)

// table measures the rates of calls.
func (b *bench) table() {
	small, middle, big, changing := list("small", worlds, ""), list("middle", worlds, ""), list("big", bigWorlds, ""), list("changing", worlds, "")
	some, each, many := []int{16}, []int{1, 16, 256}, []int{256}
	for _, r := range []row{
		{"list 10 x 5, read each time", some, small, readEachTime, reference, nil},
		{"list 100 x 20, read each time", some, middle, readEachTime, reference, nil},
		{"list 1,000 x 100, read each time", some, big, readEachTime, reference, nil},
		{"list 100 x 20", each, middle, "", reference, nil},
		{"list 1,000 x 100", some, big, "", reference, nil},
		{"unchanged list 100 x 20", each, unchanged, "", reference, nil},
		{"list 100 x 20 of one world", many, list("middle", 1, ""), "", reference, nil},
		{"list 100 x 20 that changes all the time", some, changing, "", reference, changes},
		{"list 100 x 20, gzip", some, list("middle", worlds, "Accept-Encoding: gzip\r\n"), "", reference, nil},
		{"join", each, join, "", reference, nil},
		{"join again", some, joinAgain, "", reference, nil},
		{"leave", each, leave, "", reference, nil},
		{"create", each, create, "", reference, nil},
		{"create, against one that marks no changes", some, create, "", unmarked, nil},
		{"create with a key", some, createWithKey, "", reference, nil},
		{"refresh", each, refresh, "", reference, nil},
		{"refresh, signed by a private key, against a secret", some, refresh, byKey, bySecret, nil},
		{"session, against bare Echo", some, session, "", reference, nil},
		{"session, signed by a private key, against a secret", some, ownSession, byKey, bySecret, nil},
		{"SQLite: list 100 x 20, read each time", some, middle, onSQLite, driver, nil},
		{"SQLite: join", some, join, onSQLite, driver, nil},
	} {
		if !b.only.MatchString(r.work) {
			continue
		}
		var contenders []contender
		for i, s := range slices.Concat(b.servers(r.setting), b.servers(r.against)) {
			if i <= len(b.builds) { // the service without a setting is several, too
				contenders = append(contenders, contender{s.name, s, s.sends(r.call), r.beside})
			}
		}
		same(r.call, contenders)
		if r.against == driver {
			contenders = append(contenders, contender{name: driver, of: b.onDriver(r.work)})
		}
		for _, conns := range r.conns {
			b.compare(r.work, conns, contenders)
		}
	}
}

// changes changes all worlds of a kind, each more often than its list is asked for.
func changes(s *server) (end func()) {
	var ids []string
	for w := range worlds {
		ids = append(ids, idOf("changing", w*100+50))
	}
	ctx, cancel := context.WithCancel(context.Background())
	db := must(pgx.Connect(ctx, s.database))
	var changing sync.WaitGroup
	changing.Go(func() {
		defer db.Close(context.Background())
		for i := 0; ctx.Err() == nil; i++ {
			time.Sleep(3 * time.Millisecond)
			must(db.Exec(context.Background(), "UPDATE events SET description = 'Change ' || $1::int WHERE id = ANY ($2::uuid[])", i, ids))
		}
	})
	return func() {
		cancel()
		changing.Wait()
	}
}
