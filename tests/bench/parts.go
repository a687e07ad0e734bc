package main

import (
	"fmt"
	"time"
)

const (
	users = 2000
	// Each connection lists a world of its own, so that the service has nothing to share between requests.
	worlds = connections
	// acceptGzip is what browsers say, more or less.
	acceptGzip = "Accept-Encoding: gzip, deflate, br, zstd\r\n"
)

// main measures all that needs nothing but an ordinary database.
func (b *bench) main() error {
	service, err := b.database("main")
	if err != nil {
		return err
	}
	defer service.stop()
	databases := []string{"main"}
	var reference *server
	if b.before != "" { // its schema may be another
		databases = append(databases, "before")
		if err := b.exec("postgres", "CREATE DATABASE before"); err != nil {
			return err
		}
		if reference, err = b.program("before", b.before, b.url("before")); err != nil {
			return err
		}
		defer reference.stop()
	}
	b.say("filling worlds of 10 x 5, 100 x 20 and 1,000 x 100")
	seed := []string{seedUsers(users), seedSessions(users)}
	for w := range worlds {
		seed = append(seed, seedWorld("small", w, 10, 5), seedWorld("middle", w, 100, 20))
	}
	for w := range b.big {
		seed = append(seed, seedWorld("big", w, 1000, 100))
	}
	// Leave has to find RSVPs, and each server its own.
	for w := range 2 {
		seed = append(seed, seedWorld("join", w, b.toJoin, 0), seedWorld("leave", w, b.toLeave, users))
	}
	for _, database := range databases {
		if err := b.exec(database, append(seed, "VACUUM ANALYZE", "CHECKPOINT")...); err != nil {
			return err
		}
	}
	if b.before == "" {
		if reference, err = b.other("reference", b.url("main")); err != nil {
			return err
		}
		defer reference.stop()
	}
	bare, err := b.other("bare", "")
	if err != nil {
		return err
	}
	defer bare.stop()

	c := newCrowd(users)
	var etags, theirs [worlds]string
	for w := range worlds {
		for _, world := range []string{worldOf("small", w), worldOf("middle", w), worldOf("big", w%b.big)} {
			etag, err := sameBytes(c.list(world), service, reference)
			if err != nil {
				return fmt.Errorf("%s: %w", world, err)
			}
			if world == worldOf("middle", w) {
				etags[w] = etag
				theirs[w], _ = sameBytes(c.list(world), reference)
			}
		}
	}
	b.say("all servers return the same bytes for each list")

	small, middle, big := c.lists("small", worlds), c.lists("middle", worlds), c.lists("big", b.big)
	hotWith := func(header string) func(int) requests {
		return func(i int) requests { return always(c.getAs(1+i, "/api/event/"+worldOf("middle", 0), header)) } // as many users
	}
	hot := hotWith("")
	compressed := func(i int) requests { return always(c.get("/api/event/"+worldOf("middle", i%worlds), acceptGzip)) }
	plain, _, err := fetch(service.addr, c.list(worldOf("middle", 0)))
	if err != nil {
		return err
	}
	short, _, err := fetch(service.addr, c.get("/api/event/"+worldOf("middle", 0), acceptGzip))
	if err != nil {
		return err
	}
	gzip := fmt.Sprintf(", gzip: %s bytes instead of %s", number(float64(short.size)), number(float64(plain.size)))
	having := func(etag func(world int) string) func(int) requests {
		return func(i int) requests {
			return always(c.get("/api/event/"+worldOf("middle", i%worlds), "If-None-Match: "+etag(i%worlds)+"\r\n"))
		}
	}
	held := having(func(world int) string { return etags[world] })
	heldThere := having(func(world int) string { return theirs[world] })
	old := having(func(int) string { return `W/"0123456789abcdef"` })
	session := func(i int) requests { return always(c.get("/api/auth/session", "")) }
	// Each server writes to rows of its own.
	writes := func(of func(group int) func(int) requests) []contender {
		return []contender{calls("service", service, connections, of(0)), calls(reference.name, reference, connections, of(1))}
	}
	reads := func(of func(int) requests) []contender {
		return writes(func(int) func(int) requests { return of })
	}
	refreshes := func(group int) func(int) requests { return c.refresh(1 + group*connections) }
	type work struct {
		work, goal string
		contenders []contender
	}
	rows := []work{
		{"list 10 x 5", "0.9", reads(small)},
		{"list 100 x 20", "0.9", reads(middle)},
		{"list 1,000 x 100", "0.9", reads(big)},
		{"list 100 x 20, If-None-Match holds", "1.1", []contender{
			calls("service", service, connections, held),
			calls("service, full list", service, connections, middle),
		}},
		{"list 100 x 20, If-None-Match no longer holds", "", []contender{
			calls("service", service, connections, old),
			calls("service, full list", service, connections, middle),
		}},
		{"list 100 x 20, 256 connections on one world", "3", []contender{
			calls("service", service, 256, hot),
			calls("reference", reference, 256, hot),
		}},
		{"list 100 x 20" + gzip, "", []contender{
			calls("service", service, connections, compressed),
			calls("service, not compressed", service, connections, middle),
		}},
		{"list 100 x 20, 256 connections on one world" + gzip, "1", []contender{
			calls("service", service, 256, hotWith(acceptGzip)),
			calls("service, not compressed", service, 256, hot),
		}},
		{"join", "0.9", writes(c.join(b.toJoin))},
		{"create", "0.9", writes(c.create)},
		{"leave", "0.9", writes(c.leave(b.toLeave))},
		{"refresh", "0.9", writes(refreshes)},
		{"session", "0.8", []contender{
			calls("service", service, connections, session),
			calls("bare Echo", bare, connections, session),
		}},
	}
	if b.before != "" {
		rows = []work{
			{"list 10 x 5", "", reads(small)},
			{"list 100 x 20", "", reads(middle)},
			{"list 1,000 x 100", "", reads(big)},
			{"list 100 x 20, If-None-Match holds", "", []contender{
				calls("service", service, connections, held),
				calls(reference.name, reference, connections, heldThere),
			}},
			{"list 100 x 20, If-None-Match no longer holds", "", reads(old)},
			{"list 100 x 20, 256 connections on one world", "", []contender{
				calls("service", service, 256, hot),
				calls(reference.name, reference, 256, hot),
			}},
			{"join", "", writes(c.join(b.toJoin))},
			{"create", "", writes(c.create)},
			{"leave", "", writes(c.leave(b.toLeave))},
			{"refresh", "", writes(refreshes)},
			{"session", "", reads(session)},
		}
	}
	for _, r := range rows {
		if err := b.row(r.work, r.goal, r.contenders...); err != nil {
			return err
		}
	}
	if b.before != "" {
		return nil
	}
	for _, conns := range []int{1, 4, 64, 256} {
		err := b.row(fmt.Sprintf("list 100 x 20, connections: %d", conns), "",
			calls("service", service, conns, middle), calls("reference", reference, conns, middle))
		if err != nil {
			return err
		}
	}
	return nil
}

// stale measures lists while the statistics of the tables are out of date. The reference has its own copy of the same
// rows, with fresh statistics.
func (b *bench) stale() error {
	joins := b.elsewhere * users
	work := fmt.Sprintf("list 100 x 20 after %s joins elsewhere", number(float64(joins)))
	for _, kind := range []struct{ work, goal, database, before string }{
		{work + ", before any autovacuum", "0.9", "stale", "VACUUM ANALYZE"},
		{work + ", never analysed", "", "never", "CHECKPOINT"},
	} {
		if !b.only.MatchString(kind.work) {
			continue
		}
		service, err := b.database(kind.database)
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
		if service, err = b.service(b.url(kind.database)); err != nil {
			return err
		}
		defer service.stop()
		reference, err := b.other("reference", b.url("fresh_"+kind.database))
		if err != nil {
			return err
		}
		defer reference.stop()
		if _, err := sameBytes(c.list(worldOf("middle", 0)), service, reference); err != nil {
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
func (b *bench) database(name string) (*server, error) {
	if err := b.exec("postgres", "CREATE DATABASE "+name); err != nil {
		return nil, err
	}
	return b.service(b.url(name))
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
	service, err := b.database("large")
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
		for rsvps := 100; rsvps <= b.settings.large; rsvps *= 10 {
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
			s, err = b.service(b.url("large"))
		}
		if err != nil {
			return nil, err
		}
		// What a server allocates for its first requests is no growth.
		return s, times(s.addr, connections, 500, c.lists("split0-1000", 1))
	}
	for _, w := range all {
		for _, name := range []string{"service", "reference"} {
			if w.rsvps == b.settings.large {
				s, err := begin(name) // anew: what others have grown is no growth
				if err != nil {
					return err
				}
				four, err := listed(s, c.list(w.name), 4, 1)
				if err != nil {
					return err
				}
				four.Split, four.RSVPs, four.Server = w.split.name, w.rsvps, name
				b.report.Streams = append(b.report.Streams, four)
				b.say("%s", four)
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
