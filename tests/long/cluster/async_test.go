package cluster

import (
	"fmt"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// Spellings of a list are read, kept and checked apart. The database is asked about all of them in the same way, so each of these is
// the one that nobody asks for from before the failover until the time that it names.
const (
	untilMarks   = "?limit=100" // the new leader can say what has changed
	untilWrites  = "?limit=101" // it has given a change the number of a transaction that is lost
	untilNumbers = "?limit=102" // it has given out all of these numbers
	untilReturn  = "?limit=103" // the old leader leads again
)

// Standbys that are asynchronous lose what was acknowledged last, and their new leader gives out the numbers of the lost transactions
// once more. From then on no instance shows a list of before or says that it is unchanged, whether anybody has asked for it meanwhile
// or not, and those who wait for news of it hear that it is another one.
func TestAsynchronousStandbys(t *testing.T) {
	c := newCluster(t)
	c.becomeAsynchronous(t)
	old := c.leader(t)
	l := newLists(t, old, c.startInstances(t, old, 11), "joined", "left", "created", "begun", "unchanged", "empty")
	d := &asyncDrill{lists: l, old: old, alice: l.signIn("alice"), bob: l.signIn("bob"), carol: l.signIn("carol"), events: make(map[string]string)}
	l.change(d.begin)
	l.check("before", "")
	survive := l.now()

	old.stopSending(t)
	d.lost = l.signIn("lost")
	d.writeInVain()
	old.spend(t, 300)
	d.keep(untilMarks, untilWrites, untilNumbers, untilReturn)
	l.askOn()
	l.check("acknowledged", "")
	d.number, d.gone = old.nextNumber(t), l.now()
	d.failOver(c, survive)
	d.goOn()

	old.start(t)
	c.waitHealthy(t)
	l.check("with the old leader as a standby", "", untilMarks, untilWrites, untilNumbers)
	l.leader.switchover(t, old.name)
	if l.leader = c.leader(t); l.leader != old {
		t.Fatalf("%s leads, not %s", l.leader.name, old.name)
	}
	old.awaitMarks(t)
	l.check("the old leader leads again", "", untilMarks, untilReturn)
	d.change("carol leaves", func(i *instance) { l.write(i, d.carol, "DELETE", d.events["left"], "") })
	for _, w := range d.watches {
		if !w.hasNews {
			w.awaitEnd(t)
		}
	}
	l.check("written to the old leader", "", untilMarks, untilWrites, untilNumbers, untilReturn)
}

// lossy reports whether a world will lose something.
func lossy(world string) bool { return world != "unchanged" && world != "empty" }

// asyncDrill is who writes what, and what is lost of it.
type asyncDrill struct {
	*lists
	old               *node // leader
	alice, bob, carol *servicetest.Browser
	lost              *servicetest.Browser // a user whom no standby knows
	events            map[string]string    // the first event of each world that has one
	writes            int
	gone              map[string]string // what will be lost
	number            uint64            // no number of a lost transaction is higher
	watches           []*watch
}

// failOver loses the leader with what it has acknowledged, and waits until everybody hears of that.
func (d *asyncDrill) failOver(c *cluster, survive map[string]string) {
	t := d.t
	t.Helper()
	d.watches = d.watchAll()
	promotion := c.watchPromotion(t, d.old)
	killed := time.Now()
	d.old.kill(t)
	dead := time.Now()
	promoted := promotion.wait(t)
	d.leader = c.leader(t)
	if next := d.leader.nextNumber(t); next > d.number-200 {
		t.Fatalf("the new leader's next transaction is %d, and lost ones are up to %d: this proves nothing", next, d.number)
	}
	d.epochs = append(d.epochs, epoch{killed, dead, d.leader.lists(t)}) // nobody could read the lost lists once the leader was dead
	for _, world := range d.worlds {
		before, acknowledged, now := body(survive, world), body(d.gone, world), body(d.now(), world)
		if now != before {
			t.Fatalf("of %s there is %s, and the standbys were sent %s", world, short(now), short(before))
		}
		if lossy(world) != (now != acknowledged) {
			t.Fatalf("%s has lost something: %t, want %t, or this proves nothing", world, now != acknowledged, lossy(world))
		}
	}
	for _, w := range d.watches {
		if w.hasNews {
			w.awaitNews(t, promoted, dead)
		}
	}
	for _, i := range d.instances {
		i.becomeReady(t, promoted)
		servicetest.Eventually(t, "who is lost is not signed in", func() bool {
			res := d.do(i, d.lost, "GET", "/api/event/joined", "")
			if res.Status == 200 || res.Status == 304 {
				t.Fatalf("%s: a user who is lost gets %v", i.name, res)
			}
			return res.Status == 401
		})
	}
	d.check("promoted", "")
}

// goOn writes to the new leader, until it has given out all numbers of lost transactions and what was lost is there again.
func (d *asyncDrill) goOn() {
	t := d.t
	t.Helper()
	d.leader.awaitMarks(t)
	d.check("with marks", "", untilMarks)
	d.change("carol joins what bob has left in vain", func(i *instance) { d.write(i, d.carol, "POST", "join/"+d.events["left"], "") })
	if next := d.leader.nextNumber(t); next >= d.number {
		t.Fatalf("the new leader's next transaction is %d, and lost ones are up to %d: this proves nothing", next, d.number)
	}
	d.check("numbers are given out again", "", untilMarks, untilWrites)
	for d.leader.nextNumber(t) <= d.number {
		d.leader.spend(t, 40)
		d.create(d.instances[0], "elsewhere", fmt.Sprint(time.Now().UnixNano()))
		d.check("on the way to the last of them", "")
	}
	d.check("past the last of them", "", untilMarks, untilWrites, untilNumbers)
	d.writeInVain()
	for _, world := range []string{"joined", "created", "begun"} { // of which carol is no part
		if got, want := body(d.now(), world), body(d.gone, world); got != want {
			t.Fatalf("%s is %s, and was %s", world, short(got), short(want))
		}
	}
	d.check("the same again", "", untilMarks, untilWrites, untilNumbers)
}

// change makes a change at one of the instances, the other one than the last time.
func (d *asyncDrill) change(what string, act func(*instance)) {
	d.t.Helper()
	d.writes++
	i := d.instances[d.writes%len(d.instances)]
	d.lists.change(func() { act(i) })
	d.t.Logf("%s, at %s", what, i.name)
}

// create creates an event, the same one again with the same name.
func (d *asyncDrill) create(i *instance, world, name string) (id string) {
	d.t.Helper()
	text := fmt.Sprintf(`{"name":%q,"description":%q,"scheduledAt":%q}`, name, long, servicetest.When)
	return d.write(i, d.alice, "POST", world, text, servicetest.Header("Idempotency-Key", world+name)).Header.Get("Event-Id")
}

func (d *asyncDrill) begin() {
	for _, world := range []string{"joined", "left", "created", "unchanged"} {
		d.events[world] = d.create(d.instances[0], world, "first")
	}
	d.write(d.instances[1], d.bob, "POST", "join/"+d.events["left"], "")
}

// writeInVain makes the changes that will be lost, and the second time makes them again: then the lists are the lost ones.
func (d *asyncDrill) writeInVain() {
	d.t.Helper()
	d.change("bob joins", func(i *instance) { d.write(i, d.bob, "POST", "join/"+d.events["joined"], "") })
	d.change("bob leaves", func(i *instance) { d.write(i, d.bob, "DELETE", d.events["left"], "") })
	d.change("alice creates a second event", func(i *instance) { d.create(i, "created", "second") })
	d.change("alice creates a first event", func(i *instance) { d.create(i, "begun", "first") })
}

// keep has both instances keep all lists in these spellings, for nobody to ask for them for a while.
func (d *asyncDrill) keep(queries ...string) {
	d.t.Helper()
	d.check("in other spellings", queries...)
	const readings = "worldevents_list_readings_total"
	for _, i := range d.instances {
		before := i.process.Metric(readings)
		for _, query := range queries {
			for _, world := range d.worlds {
				if a := d.ask(i, world, query, "identity"); a.Status != 200 {
					d.t.Fatalf("%s: %v", i.name, a.response)
				}
			}
		}
		if read := i.process.Metric(readings) - before; read > 0 {
			d.t.Fatalf("%s has read %v lists again and not kept them: this proves nothing", i.name, read)
		}
	}
}
