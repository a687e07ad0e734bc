package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

// waits measures what it takes to wait for news of lists, and how soon news comes.
func (b *bench) waits() error {
	type part struct {
		name string
		of   func(crowd) error
	}
	parts := []part{{"wait, idle", b.waitIdle}, {"wait for one", b.waitForOne}, {"wait, lag", b.waitLag}, {"wait or poll", b.waitOrPoll}, {"wait beside joins", b.waitBesideJoins}}
	parts = slices.DeleteFunc(parts, func(p part) bool { return !b.only.MatchString(p.name) })
	if len(parts) == 0 {
		return nil
	}
	service, err := b.database("wait")
	if err != nil {
		return err
	}
	service.stop()
	b.say("filling %d worlds", b.waiters)
	err = b.exec("wait", seedUsers(users), seedSessions(users), seedWorld("middle", 0, 100, 20), seedTiny(b.waiters),
		seedWorld("join", 0, b.toJoin, 0), seedWorld("join", 1, b.toJoin, 0), "VACUUM ANALYZE", "CHECKPOINT")
	if err != nil {
		return err
	}
	c := newCrowd(users)
	for _, part := range parts {
		if err := part.of(c); err != nil {
			return err
		}
	}
	return nil
}

// seedTiny makes worlds of one event with 20 RSVPs.
func seedTiny(worlds int) string {
	return fmt.Sprintf(`DO $$ BEGIN
		INSERT INTO events (id, world_id, creator_id, name, description, scheduled_at, created_at)
			SELECT ('%[1]s' || lpad(to_hex(i), 12, '0'))::uuid, 'tiny-' || i - 1, '%[2]s1', 'Event ' || i,
				'Bring a coat, a lamp and something to eat.', timestamptz '2030-01-01 00:00Z', now() FROM generate_series(1, %[3]d) i;
		INSERT INTO rsvps (event_number, user_number, username, created_at)
			SELECT e.number, u.number, u.username, now() FROM events e, users u WHERE world_id LIKE 'tiny-%%' AND u.number BETWEEN 101 AND 120;
	END $$`, idsOf("tiny"), userIDs+"00000000000", worlds)
}

func tiny(n int) func(i int) string { return func(i int) string { return worldOf("tiny", i%n) } }

// tinyEvent is the id of the event of a tiny world.
func tinyEvent(i int) string { return fmt.Sprintf("%s%012x", idsOf("tiny"), i+1) }

// measured adds a figure to the report.
func (b *bench) measured(work, figure, goal, format string, args ...any) {
	w := waitResult{work, figure, goal, fmt.Sprintf(format, args...)}
	b.report.Waits = append(b.report.Waits, w)
	b.say("%s: %s: %s (goal: %s)", w.Work, w.Figure, w.Measured, w.Goal)
}

// waitIdle measures what those take who wait while nothing happens.
func (b *bench) waitIdle(c crowd) error {
	for _, worlds := range []int{100, b.waiters} {
		s, err := b.service(b.url("wait"))
		if err != nil {
			return err
		}
		defer s.stop()
		etags, err := c.etagsOf(s, worlds, tiny(worlds))
		if err != nil {
			return err
		}
		before, err := s.status("VmRSS")
		if err != nil {
			return err
		}
		heldBefore, err := s.held()
		if err != nil {
			return err
		}
		begin := time.Now()
		all, err := c.watch(s, b.waiters, 50, tiny(worlds), etags)
		if err == nil {
			err = s.awaitWaits(b.waiters)
		}
		if err != nil {
			return err
		}
		connected := time.Since(begin)
		work := fmt.Sprintf("%s wait on %s worlds", number(float64(b.waiters)), number(float64(worlds)))
		b.measured(work, "all wait after", "", "%s", round(connected))
		time.Sleep(5 * time.Second)
		memory, err := s.status("VmRSS")
		if err != nil {
			return err
		}
		b.measured(work, "memory for each", "≤ 40 KB", "%.1f KB", float64(memory-before)/float64(b.waiters)/1000)
		held, err := s.held()
		if err != nil {
			return err
		}
		b.measured(work, "of it held by each", "≤ 32 KB", "%.1f KB", (held-heldBefore)/float64(b.waiters)/1000)
		cpu, idle := s.cpu(), time.Now()
		time.Sleep(10 * time.Second)
		b.measured(work, "of a core while nothing is written", "< 3 %", "%.1f %%", 100*float64(s.cpu()-cpu)/float64(time.Since(idle)))
		hangUp(all)
		if err := s.awaitWaits(0); err != nil {
			return err
		}
		s.stop()
	}
	return nil
}

// waitForOne measures how soon all have the news who wait for one list, and how others fare meanwhile.
func (b *bench) waitForOne(c crowd) error {
	s, err := b.service(b.url("wait"))
	if err != nil {
		return err
	}
	defer s.stop()
	middle := func(int) string { return worldOf("middle", 0) }
	etags, err := c.etagsOf(s, 1, middle)
	if err != nil {
		return err
	}
	empty, err := s.status("VmRSS")
	if err != nil {
		return err
	}
	all, err := c.watch(s, b.waiters, 50, middle, etags)
	if err == nil {
		err = s.awaitWaits(b.waiters)
	}
	if err != nil {
		return err
	}
	defer hangUp(all)
	stop, err := startCalls(s.addr)
	if err != nil {
		return err
	}
	time.Sleep(time.Second) // the calls alone
	before, err := s.metric("worldevents_list_readings_total")
	if err != nil {
		return err
	}
	begin := time.Now()
	if _, err := discard(s.addr, c.write("POST", "/api/event/join/"+eventID(middle(0), 50), 1999)); err != nil {
		return err
	}
	var last atomic.Int64
	err = each(len(all), func(i int) error {
		if err := all[i].news(io.Discard); err != nil {
			return err
		}
		for took := int64(time.Since(begin)); ; {
			if old := last.Load(); old >= took || last.CompareAndSwap(old, took) {
				break
			}
		}
		_, err := all[i].conn.Write(all[i].request(c, 50))
		return err
	})
	if err == nil {
		err = s.awaitWaits(b.waiters)
	}
	if err != nil {
		return err
	}
	again := time.Since(begin)
	took, err := stop()
	if err != nil {
		return err
	}
	after, err := s.metric("worldevents_list_readings_total")
	if err != nil {
		return err
	}
	memory, err := s.status("VmRSS")
	work := fmt.Sprintf("%s wait for one world of 100 x 20, one joins", number(float64(b.waiters)))
	b.measured(work, "all have the new list after", "≤ 5 s", "%s", round(time.Duration(last.Load())))
	b.measured(work, "all wait again after", "", "%s", round(again))
	b.measured(work, "memory then, and for each", "≤ 400 MB", "%d MB, %.1f KB", memory>>20, float64(memory-empty)/float64(b.waiters)/1000)
	b.measured(work, "readings a second", "≤ 4", "%.0f in %s", after-before, round(again))
	b.measured(work, "ordinary calls meanwhile", "≤ 1 s", "%s", took)
	return err
}

// waitLag measures how long after a write was acknowledged those have it who wait, on two instances.
func (b *bench) waitLag(c crowd) error {
	for _, load := range []struct {
		work        string
		worlds      int
		pause       time.Duration
		same, other string
	}{
		{"200 writes a second over 200 worlds", 200, time.Second, "≤ 100 ms", "≤ 300 ms"},
		{"100 writes a second in 5 worlds", 5, 50 * time.Millisecond, "≤ 400 ms", "≤ 600 ms"},
	} {
		var services [2]*server
		for i := range services {
			var err error
			if services[i], err = b.service(b.url("wait")); err != nil {
				return err
			}
			defer services[i].stop()
		}
		lags, err := b.lagsOf(c, services, load.worlds, load.pause)
		if err != nil {
			return err
		}
		for i, goal := range []string{load.same, load.other} {
			slices.Sort(lags[i])
			most := len(lags[i])
			b.measured(load.work, []string{"seen on the same instance", "seen on another"}[i]+", 50 %, 99 %, all", "99 % "+goal, "%s, %s, %s",
				round(lags[i][most/2]), round(lags[i][most*99/100]), round(lags[i][most-1]))
		}
		within, err := services[0].metric(`worldevents_list_watch_lag_seconds_bucket{le="0.1"}`)
		if err != nil {
			return err
		}
		count, err := services[0].metric("worldevents_list_watch_lag_seconds_count")
		if err != nil {
			return err
		}
		b.measured(load.work, "by the service's own count within 100 ms", "", "%.1f %%", 100*within/count)
		for _, s := range services {
			s.stop()
		}
	}
	return nil
}

// lagsOf creates events in each of some worlds, on the first service, while one watcher on each waits for each world. A world only
// grows, so that the number of events in a list says which writes it has.
func (b *bench) lagsOf(c crowd, services [2]*server, worlds int, pause time.Duration) (lags [2][]time.Duration, err error) {
	const lasts = 10 * time.Second
	end := time.Now().Add(lasts + 3*time.Second) // for the last news to come
	var watched [2][]*watcher
	var grown [2][][]growth
	errs := make(chan error, 2)
	for i, s := range services {
		etags, err := c.etagsOf(s, worlds, tiny(worlds))
		if err != nil {
			return lags, err
		}
		if watched[i], err = c.watch(s, worlds, 50, tiny(worlds), etags); err != nil {
			return lags, err
		}
		defer hangUp(watched[i])
		if err := s.awaitWaits(worlds); err != nil {
			return lags, err
		}
		grown[i] = make([][]growth, worlds)
		go func() {
			errs <- each(worlds, func(n int) (err error) {
				grown[i][n], err = watched[i][n].follow(c, end)
				return err
			})
		}()
	}
	acknowledged, before := make([][]time.Time, worlds), make([]int, worlds)
	err = each(worlds, func(n int) error {
		_, body, err := fetch(services[0].addr, c.list(worldOf("tiny", n)))
		if err != nil {
			return err
		}
		before[n] = bytes.Count(body, []byte(`"id":`))
		one, err := dial(services[0].addr)
		if err != nil {
			return err
		}
		defer one.conn.Close()
		time.Sleep(rand.N(pause)) // the worlds are not in step
		stop := time.Now().Add(lasts)
		for next := time.Now(); next.Before(stop); next = next.Add(pause) {
			time.Sleep(time.Until(next))
			var res response
			if err := one.do(c.creation(1+n, worldOf("tiny", n)), &res, nil); err != nil {
				return err
			}
			if res.status != 200 {
				return fmt.Errorf("create: status %d", res.status)
			}
			acknowledged[n] = append(acknowledged[n], time.Now())
		}
		return nil
	})
	for range services {
		err = errors.Join(err, <-errs)
	}
	for i := range services {
		for n, times := range acknowledged {
			for k, at := range times {
				seen := slices.IndexFunc(grown[i][n], func(g growth) bool { return g.events > before[n]+k })
				if seen < 0 {
					return lags, errors.Join(err, fmt.Errorf("a write to world %d was never seen", n))
				}
				lags[i] = append(lags[i], max(0, grown[i][n][seen].at.Sub(at)))
			}
		}
	}
	return lags, err
}

// waitOrPoll sets waiting for news against asking each second, for as many watchers.
func (b *bench) waitOrPoll(c crowd) error {
	const watchers, worlds, lasts = 1000, 100, 10 * time.Second
	s, err := b.service(b.url("wait"))
	if err != nil {
		return err
	}
	defer s.stop()
	var cpu [2][2][2]float64 // polling or waiting, nothing or one join a second; of the service and of PostgreSQL, seconds a minute
	for how := range cpu {
		etags, err := c.etagsOf(s, worlds, tiny(worlds))
		if err != nil {
			return err
		}
		wait := 50 * how
		all, err := c.watch(s, watchers, wait, tiny(worlds), etags)
		if err != nil {
			return err
		}
		end := time.Now().Add(2*lasts + 5*time.Second)
		done := make(chan error, 1)
		go func() {
			done <- each(watchers, func(i int) error {
				if wait > 0 {
					_, err := all[i].follow(c, end)
					return err
				}
				return all[i].poll(c, end)
			})
		}()
		time.Sleep(4 * time.Second)
		for joins := range cpu[how] {
			service, database, begin := s.cpu(), b.databaseCPU(), time.Now()
			for n := 0; time.Since(begin) < lasts; n++ {
				if joins > 0 {
					if _, err := discard(s.addr, c.write("POST", "/api/event/join/"+tinyEvent(n), 1000+how)); err != nil {
						return err
					}
				}
				time.Sleep(time.Second)
			}
			minutes := time.Since(begin).Minutes()
			cpu[how][joins] = [2]float64{(s.cpu() - service).Seconds() / minutes, (b.databaseCPU() - database).Seconds() / minutes}
		}
		if err := <-done; err != nil {
			return err
		}
		hangUp(all)
	}
	for joins, what := range []string{"nothing is written", "one joins each second"} {
		poll, wait := cpu[0][joins], cpu[1][joins]
		goal := ""
		if joins == 0 {
			goal = "≥ 20"
		}
		work := "1,000 watchers of 100 worlds, " + what
		b.measured(work, "CPU a minute, polling each second: service, PostgreSQL", "", "%.2f s, %.2f s", poll[0], poll[1])
		b.measured(work, "CPU a minute, waiting: service, PostgreSQL", "", "%.2f s, %.2f s", wait[0], wait[1])
		b.measured(work, "times cheaper", goal, "%.0f", (poll[0]+poll[1])/(wait[0]+wait[1]))
	}
	return nil
}

// poll asks for the list each second until end.
func (w *watcher) poll(c crowd, end time.Time) error {
	time.Sleep(rand.N(time.Second)) // they are not in step
	for next := time.Now(); next.Before(end); next = next.Add(time.Second) {
		if err := w.news(io.Discard); err != nil {
			return err
		}
		time.Sleep(time.Until(next))
		if _, err := w.conn.Write(w.request(c, 0)); err != nil {
			return err
		}
	}
	return nil
}

// waitBesideJoins sets joins beside 1,000 who wait on other worlds against joins alone, each on an instance of its own.
func (b *bench) waitBesideJoins(c crowd) error {
	const watchers, worlds = 1000, 100
	var services [2]*server
	for i := range services {
		var err error
		if services[i], err = b.service(b.url("wait")); err != nil {
			return err
		}
		defer services[i].stop()
	}
	etags, err := c.etagsOf(services[0], worlds, tiny(worlds))
	if err != nil {
		return err
	}
	all, err := c.watch(services[0], watchers, 50, tiny(worlds), etags)
	if err == nil {
		err = services[0].awaitWaits(watchers)
	}
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		done <- each(watchers, func(i int) error {
			_, err := all[i].follow(c, time.Now().Add(time.Hour))
			return err
		})
	}()
	err = b.row("wait beside joins: 1,000 on 100 other worlds", "0.9",
		calls("service", services[0], connections, c.join(b.toJoin)(0)), calls("service, nobody waits", services[1], connections, c.join(b.toJoin)(1)))
	hangUp(all)
	<-done // they were cut off
	return err
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
