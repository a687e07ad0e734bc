package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	users = 2000
	// Each connection lists a world of its own, so that the service has nothing to share between requests.
	worlds = connections
	// acceptGzip is what browsers say, more or less.
	acceptGzip = "Accept-Encoding: gzip, deflate, br, zstd\r\n"
	// changeInterval is the time between two changes of each world that changes all the time.
	changeInterval = 3 * time.Millisecond
)

// side is a build with a database of its own, and what its users have done so far: joins, leaves and refreshes go on from row to row.
type side struct {
	*server
	database             string
	join, leave, refresh func(connection int) requests
}

// main measures all that needs nothing but an ordinary database.
func (b *bench) main() error {
	b.say("filling worlds of 10 x 5, 100 x 20 and 1,000 x 100, once for each server")
	this := build{name: "service", binary: b.binary}
	again := build{name: "the same again", binary: b.binary}
	reading := build{name: "service", binary: b.binary, settings: []string{reads}}
	c := newCrowd(users)
	var sides []*side
	for i, of := range slices.Concat([]build{this, again}, b.builds, []build{this}) {
		s, err := b.side(c, of, fmt.Sprint("main", i))
		if err != nil {
			return err
		}
		defer s.stop()
		sides = append(sides, s)
	}
	last := sides[len(sides)-1] // has made the database for the reference
	last.stop()
	var err error
	if last.server, err = b.other("reference", b.url(last.database)); err != nil {
		return err
	}
	defer last.stop()
	reader, err := b.program(reading, b.url(sides[0].database))
	if err != nil {
		return err
	}
	defer reader.stop()
	bare, err := b.other("bare", "")
	if err != nil {
		return err
	}
	defer bare.stop()

	all := []*server{reader}
	for _, s := range sides {
		all = append(all, s.server)
	}
	for _, kind := range []string{"small", "middle", "big"} {
		if err := sameBytes(c.list(worldOf(kind, 0)), all...); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	b.say("all servers return the same bytes for each list")

	each := func(conns int, of func(*side) func(int) requests) (contenders []contender) {
		for _, s := range sides {
			contenders = append(contenders, calls(s.name, s.server, conns, of(s)))
		}
		return contenders
	}
	lists := func(of func(int) requests) func(*side) func(int) requests {
		return func(*side) func(int) requests { return of }
	}
	readBeside := func(of func(int) requests) []contender {
		return []contender{calls(reader.name, reader, connections, of), calls(last.name, last.server, connections, of)}
	}
	small, middle, big := c.lists("small", worlds), c.lists("middle", worlds), c.lists("big", b.big)
	hot := func(header string) func(int) requests {
		return func(i int) requests { return always(c.getAs(1+i, "/api/event/"+worldOf("middle", 0), header)) } // as many users
	}
	compressed := func(i int) requests {
		return always(c.getAs(1+i, "/api/event/"+worldOf("middle", i%worlds), acceptGzip))
	}
	session := func(i int) requests { return always(c.get("/api/auth/session", "")) }
	changing := each(connections, lists(middle))
	for i, s := range sides {
		changing[i].run = b.besideChanges(s.database, changing[i].run)
	}
	type work struct {
		work, goal string
		contenders []contender
	}
	rows := []work{
		{"list 10 x 5, read each time", "0.9", readBeside(small)},
		{"list 100 x 20, read each time", "0.9", readBeside(middle)},
		{"list 1,000 x 100, read each time", "0.9", readBeside(big)},
		{"list 10 x 5", "", each(connections, lists(small))},
		{"list 1,000 x 100", "", each(connections, lists(big))},
		{"list 100 x 20 that changes all the time", "0.9", changing},
		{"list 100 x 20, 256 connections on one world", "3", each(256, lists(hot("")))},
		{"list 100 x 20, gzip", "", each(connections, lists(compressed))},
		{"list 100 x 20, 256 connections on one world, gzip", "", each(256, lists(hot(acceptGzip)))},
		{"create with a key", "", each(connections, lists(c.createWithKey(0)))},
		{"session", "0.8", append(each(connections, lists(session))[:len(sides)-1], calls("bare Echo", bare, connections, session))},
	}
	for _, conns := range []int{1, connections, 64, 256} {
		at := ""
		if conns != connections {
			at = fmt.Sprintf(", connections: %d", conns)
		}
		rows = append(rows,
			work{"list 100 x 20" + at, "", each(conns, lists(middle))},
			work{"unchanged list 100 x 20" + at, "3", each(conns, c.unchanged("middle", worlds))},
			work{"join" + at, "0.9", each(conns, func(s *side) func(int) requests { return s.join })},
			work{"leave" + at, "0.9", each(conns, func(s *side) func(int) requests { return s.leave })},
			work{"create" + at, "0.9", each(conns, lists(c.create(0)))},
			work{"refresh" + at, "0.9", each(conns, func(s *side) func(int) requests { return s.refresh })},
		)
	}
	for _, r := range rows {
		if err := b.row(r.work, r.goal, r.contenders...); err != nil {
			return err
		}
	}
	return nil
}

// side starts a build on a database of its own.
func (b *bench) side(c crowd, of build, database string) (*side, error) {
	if err := b.exec("postgres", "CREATE DATABASE "+database); err != nil {
		return nil, err
	}
	server, err := b.program(of, b.url(database))
	if err != nil {
		return nil, err
	}
	seed := []string{seedUsers(users), seedSessions(users), seedWorld("join", 0, b.toJoin, 0), seedWorld("leave", 0, b.toLeave, users)}
	for w := range worlds {
		seed = append(seed, seedWorld("small", w, 10, 5), seedWorld("middle", w, 100, 20))
	}
	for w := range b.big {
		seed = append(seed, seedWorld("big", w, 1000, 100))
	}
	return &side{server, database, c.join(b.toJoin)(0), c.leave(b.toLeave)(0), c.refresh(1)}, b.exec(database, append(seed, "VACUUM ANALYZE", "CHECKPOINT")...)
}

// besideChanges is run while all worlds of 100 x 20 change, each more often than its list is asked for.
func (b *bench) besideChanges(database string, run func(warmup, round time.Duration) (float64, int, error)) func(warmup, round time.Duration) (float64, int, error) {
	return func(warmup, round time.Duration) (rate float64, n int, err error) {
		var ids []string
		for w := range worlds {
			ids = append(ids, eventID(worldOf("middle", w), 50))
		}
		db, err := pgx.Connect(context.Background(), b.url(database))
		if err != nil {
			return 0, 0, err
		}
		ctx, cancel := context.WithCancel(context.Background())
		changed := make(chan error, 1)
		go func() {
			defer db.Close(context.Background())
			for i := 0; ; i++ {
				select {
				case <-ctx.Done():
					changed <- nil
					return
				case <-time.After(changeInterval):
				}
				if _, err := db.Exec(context.Background(), "UPDATE events SET description = 'Change ' || $1::int WHERE id = ANY ($2::uuid[])", i, ids); err != nil {
					changed <- err
					return
				}
			}
		}()
		rate, n, err = run(warmup, round)
		cancel()
		return rate, n, errors.Join(err, <-changed)
	}
}

// stale measures lists while the statistics of the tables are out of date. The reference has its own copy of the same
// rows, with fresh statistics.
func (b *bench) stale() error {
	joins := b.elsewhere * users
	work := fmt.Sprintf("list 100 x 20, read each time, after %s joins elsewhere", number(float64(joins)))
	for _, kind := range []struct{ work, goal, database, before string }{
		{work + ", before any autovacuum", "0.9", "stale", "VACUUM ANALYZE"},
		{work + ", never analysed", "", "never", "CHECKPOINT"},
	} {
		if !b.only.MatchString(kind.work) {
			continue
		}
		service, err := b.database(kind.database, reads)
		if err != nil {
			return err
		}
		defer service.stop()
		seed := []string{seedUsers(users), seedSessions(users), seedWorld("join", 0, b.elsewhere, 0)}
		for w := range worlds {
			seed = append(seed, seedWorld("middle", w, 100, 20))
		}
		if err := b.exec(kind.database, append(seed, kind.before)...); err != nil {
			return err
		}
		c := newCrowd(users)
		b.say("%d joins", joins)
		if err := times(service.addr, connections, joins, c.join(b.elsewhere)(0)); err != nil {
			return err
		}
		service.stop() // a database is copied while nobody uses it
		if err := b.exec("postgres", "CREATE DATABASE fresh_"+kind.database+" TEMPLATE "+kind.database); err != nil {
			return err
		}
		if err := b.exec("fresh_"+kind.database, "VACUUM ANALYZE", "CHECKPOINT"); err != nil {
			return err
		}
		if service, err = b.service(b.url(kind.database), reads); err != nil {
			return err
		}
		defer service.stop()
		reference, err := b.other("reference", b.url("fresh_"+kind.database))
		if err != nil {
			return err
		}
		defer reference.stop()
		if err := sameBytes(c.list(worldOf("middle", 0)), service, reference); err != nil {
			return err
		}
		err = b.row(kind.work, kind.goal,
			calls("service", service, connections, c.lists("middle", worlds)),
			calls("reference, fresh statistics", reference, connections, c.lists("middle", worlds)))
		if err != nil {
			return err
		}
	}
	return nil
}

// database makes a database, and a service in front of it.
func (b *bench) database(name string, settings ...string) (*server, error) {
	if err := b.exec("postgres", "CREATE DATABASE "+name); err != nil {
		return nil, err
	}
	return b.service(b.url(name), settings...)
}

// split is a way to split RSVPs among the events of a world.
type split struct {
	name     string
	perEvent func(rsvps int) int
}

var splits = []split{
	{"events of 100 RSVPs", func(int) int { return 100 }},
	{"one event", func(rsvps int) int { return rsvps }},
}

// large measures single lists, up to the largest world.
func (b *bench) large() error {
	if !b.only.MatchString("memory") {
		return nil
	}
	service, err := b.database("large", reads)
	if err != nil {
		return err
	}
	defer service.stop()
	b.say("filling worlds of up to %d RSVPs", b.settings.large)
	// Keys need no check here, and the indices are built at once.
	seed := []string{"SET session_replication_role = replica", seedUsers(b.settings.large), seedSessions(connections),
		"DROP INDEX rsvps_list"}
	type world struct {
		split split
		rsvps int
		name  string
	}
	var all []world
	for i, split := range splits {
		for rsvps := 900; rsvps <= b.settings.large; rsvps *= 10 {
			name := fmt.Sprintf("split%d-%d", i, rsvps)
			all = append(all, world{split, rsvps, worldOf(name, 0)})
			seed = append(seed, seedWorldOf(name, 0, rsvps/split.perEvent(rsvps), split.perEvent(rsvps), b.settings.large))
		}
	}
	for events := 10; events <= 10_000; events *= 10 {
		name := fmt.Sprintf("empty-%d", events)
		all = append(all, world{split{name: "events without RSVPs"}, events, worldOf(name, 0)})
		seed = append(seed, seedWorld(name, 0, events, 0))
	}
	seed = append(seed,
		"CREATE INDEX rsvps_list ON rsvps (event_number, created_at, user_number) INCLUDE (username)",
		"VACUUM ANALYZE", "CHECKPOINT")
	if err := b.exec("large", seed...); err != nil {
		return err
	}
	c := newCrowd(connections)
	begin := func(name string) (*server, error) {
		s, err := b.other(name, b.url("large"))
		if name == "service" {
			s, err = b.service(b.url("large"), reads)
		}
		if err != nil {
			return nil, err
		}
		// What a server allocates for its first requests is no growth.
		return s, times(s.addr, connections, 500, c.lists("split0-900", 1))
	}
	for _, w := range all {
		for _, name := range []string{"service", "reference"} {
			if w.rsvps == b.settings.large {
				s, err := begin(name) // anew: what others have grown is no growth
				if err != nil {
					return err
				}
				clients := 20
				if name == "reference" { // which holds a response for each
					clients = 4
				}
				many, err := listed(s, c.list(w.name), clients, 1)
				if err != nil {
					return err
				}
				many.Split, many.RSVPs, many.Server = w.split.name, w.rsvps, name
				b.report.Large = append(b.report.Large, many)
				b.say("%s", many)
				s.stop()
			}
			s, err := begin(name)
			if err != nil {
				return err
			}
			tries := 3
			if w.rsvps <= 10_000 {
				tries = 21
			}
			one, err := listed(s, c.list(w.name), 1, tries)
			if err != nil {
				return err
			}
			one.Split, one.RSVPs, one.Server = w.split.name, w.rsvps, name
			b.report.Growth = append(b.report.Growth, one)
			b.say("%s", one)
			s.stop()
		}
	}
	return nil
}

// listed lets clients ask for a list at once, several times, and returns medians over time and the peak of memory.
func listed(s *server, request []byte, clients, tries int) (listing, error) {
	l := listing{Clients: clients}
	before, err := s.resetPeak()
	if err != nil {
		return l, err
	}
	var whole, first []time.Duration
	for range tries {
		responses := make(chan response, clients)
		errs := make(chan error, clients)
		begin := time.Now()
		for range clients {
			go func() {
				res, err := discard(s.addr, request)
				responses <- res
				errs <- err
			}()
		}
		for range clients {
			res := <-responses
			if err := <-errs; err != nil {
				return l, err
			}
			l.Bytes = res.size
			first = append(first, res.firstByte)
		}
		whole = append(whole, time.Since(begin))
	}
	peak, err := s.peak()
	l.Seconds, l.FirstByte = median(whole).Seconds(), median(first).Seconds()
	l.PeakMB = max(0, float64(peak-before)/(1<<20))
	return l, err
}
