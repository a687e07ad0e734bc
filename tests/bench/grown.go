package main

import (
	"fmt"
	"math/rand/v2"
)

// crowdWorlds is how many worlds of 100 x 20 a grown database has for each thousand users.
const crowdWorlds = 12.5

// grown measures the service over a database that has been used for years, beside the service over one that has nothing
// but what the requests need.
func (b *bench) grown() error {
	if !b.only.MatchString("grown") {
		return nil
	}
	worldsThere := int(float64(b.crowd) / 1000 * crowdWorlds)
	size := number(float64(worldsThere * 100 * 20))
	needed := []string{seedWorld("join", 0, b.toJoin, 0)}
	for w := range worlds {
		needed = append(needed, seedWorld("middle", w, 100, 20))
	}
	b.say("filling a database with %s RSVPs", size)
	empty, err := b.filled("small", append([]string{seedUsers(users), seedSessions(users)}, needed...))
	if err != nil {
		return err
	}
	defer empty.stop()
	grown, err := b.filled("grown", append([]string{
		seedUsers(b.crowd), seedSessions(b.crowd),
		"SET session_replication_role = replica", // keys need no check here
		seedCrowd(worldsThere, b.crowd), seedDecade(b.crowd),
		"SET session_replication_role = origin",
	}, needed...))
	if err != nil {
		return err
	}
	defer grown.stop()
	b.report.BytesPerRSVP, err = b.ask("grown", "SELECT (pg_total_relation_size('rsvps') / count(*))::text FROM rsvps")
	if err != nil {
		return err
	}

	c := newCrowd(users)
	anywhere := func(int) requests {
		return func([]byte, *response) []byte { return c.list(worldOf("crowd", rand.IntN(worldsThere))) }
	}
	for _, r := range []struct {
		work, goal string
		of, there  func(connection int) requests
	}{
		{"list 100 x 20, read each time", "0.9", c.lists("middle", worlds), c.lists("middle", worlds)},
		{"list 100 x 20 of any world, read each time", "", c.lists("middle", worlds), anywhere},
		{"join", "0.9", c.join(b.toJoin)(0), c.join(b.toJoin)(0)},
		{"create", "0.9", c.create(0), c.create(0)},
		{"refresh", "0.9", c.refresh(1), c.refresh(1)},
	} {
		err := b.row("grown to "+size+" RSVPs: "+r.work, r.goal,
			calls("service", grown, connections, r.there), calls("service, small database", empty, connections, r.of))
		if err != nil {
			return err
		}
	}
	for _, query := range []string{"?limit=20", "?limit=100", "?from=" + decadeEnds + "&limit=20", "?from=" + decadeEnds, ""} {
		one, err := listed(grown, c.list("decade-0"+query), 1, 5)
		if err != nil {
			return err
		}
		one.Split, one.RSVPs, one.Server = "decade"+query, decadeEvents*20, "service"
		b.report.Decade = append(b.report.Decade, one)
		b.say("%s", one)
	}
	return nil
}

// filled makes a database of its own, fills it, and puts a service in front of it.
func (b *bench) filled(name string, seed []string) (*server, error) {
	s, err := b.database(name, reads)
	if err == nil {
		err = b.exec(name, append(seed, "VACUUM ANALYZE", "CHECKPOINT")...)
	}
	return s, err
}

// seedCrowd makes worlds of 100 events, and 20 RSVPs for each of them among so many users. They join in any order, as they
// do over years: that is what the indexes come to be like.
func seedCrowd(worlds, users int) string {
	return fmt.Sprintf(`DO $$ BEGIN
		INSERT INTO events (id, world_id, name, description, scheduled_at, created_at)
			SELECT ('%[1]s' || lpad(to_hex(i), 12, '0'))::uuid, 'crowd-' || i %% %[2]d, 'Event ' || i,
				'Bring a coat, a lamp and something to eat. Number ' || i, timestamptz '2030-01-01 00:00Z' + i * interval '1 minute', now()
			FROM generate_series(1, %[2]d * 100) i;
		INSERT INTO rsvps (event_number, user_number, username, created_at)
			SELECT event, 1 + other, 'user' || 1 + other, timestamptz '2029-01-01 00:00Z' + j * interval '1 second'
			FROM (SELECT number AS event, j, (number * 7919 + j * 104729) %% %[3]d AS other
				FROM events, generate_series(1, 20) j WHERE world_id LIKE 'crowd-%%' ORDER BY hashint8(number * 20 + j)) joins
			ON CONFLICT DO NOTHING;
	END $$`, idsOf("crowd"), worlds, users)
}

const (
	decadeEvents = 36_500
	decadeEnds   = "2034-12-24T00:00:00Z" // a week before
)

// seedDecade makes a world of ten events a day for ten years, from 2025 on, with 20 RSVPs each.
func seedDecade(users int) string {
	return fmt.Sprintf(`DO $$ BEGIN
		INSERT INTO events (id, world_id, name, description, scheduled_at, created_at)
			SELECT ('%[1]s' || lpad(to_hex(i), 12, '0'))::uuid, 'decade-0', 'Event ' || i,
				'Bring a coat, a lamp and something to eat. Number ' || i, timestamptz '2025-01-01 00:00Z' + i * interval '144 minutes', now()
			FROM generate_series(1, %[2]d) i;
		INSERT INTO rsvps (event_number, user_number, username, created_at)
			SELECT number, 1 + (number * 37 + j) %% %[3]d, 'user' || 1 + (number * 37 + j) %% %[3]d,
				timestamptz '2024-01-01 00:00Z' + j * interval '1 second'
			FROM events, generate_series(1, 20) j WHERE world_id = 'decade-0';
	END $$`, idsOf("decade"), decadeEvents, users)
}
