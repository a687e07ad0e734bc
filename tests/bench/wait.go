package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"worldevents/tests/servicetest"
)

// long has 20 clients at once ask for a list that is nearly as long as one may be.
func (b *bench) long() {
	const clients = 20
	events := 950 * b.scale
	work := fmt.Sprintf("list %d x 100, by %d clients at once", events, clients)
	if !b.only.MatchString(work) {
		return
	}
	database := b.database()
	b.seed(database, seedWorlds("long", 1, events, 100))
	s := b.start(b.builds[0], database, readEachTime)
	defer s.Signal(os.Kill)
	load(clients, b.round, s.sends(list("small", worlds, ""))) // what a server allocates for its first requests is no growth
	before := s.Memory("VmRSS")
	s.ForgetPeak()
	begin := time.Now()
	each(clients, func(i int) { s.clients[i].do(list("long", 1, "")(s, &s.clients[i]), io.Discard) })
	figure(work, "all have it after", "%s", rounded(time.Since(begin)))
	figure(work, "its length", "%.2f MB", float64(s.clients[0].size)/1e6)
	figure(work, "memory at the peak, less that before (at most 300 MB)", "%d MB", (s.Memory("VmHWM")-before)>>20)
}

// watch has thousands wait for one list, which then changes.
func (b *bench) watch() {
	watchers := make([]client, 1000*b.scale)
	work := fmt.Sprintf("wait: %d for one list of 100 x 20, one joins", len(watchers))
	if !b.only.MatchString(work) {
		return
	}
	s := b.start(b.builds[0], b.database(), "")
	defer s.Signal(os.Kill)
	one := &s.clients[0]
	one.dial(s.addr, 64<<10)
	one.do(list("middle", 1, "")(s, one), io.Discard)

	before, begin := s.Memory("VmRSS"), time.Now()
	each(len(watchers), func(i int) {
		c := &watchers[i]
		c.n, c.etag = i%users, one.etag
		c.dial(s.addr, 1<<10)
		c.await("middle-0")
	})
	s.awaitWatchers(len(watchers))
	figure(work, "all wait after", "%s", rounded(time.Since(begin)))
	time.Sleep(5 * time.Second) // for a collection
	figure(work, "memory for each", "%.1f KB", float64(s.Memory("VmRSS")-before)/float64(len(watchers))/1000)

	// Calls from another process: their times have nothing of what the watchers do in this one.
	calls := make(chan []byte)
	go func() {
		calls <- must(exec.Command(must(os.Executable()), "call", s.addr).Output())
	}()
	time.Sleep(time.Second) // the calls alone
	begin = time.Now()
	took := make([]time.Duration, len(watchers))
	one.do(one.request(1, "POST /api/event/join/"+idOf("middle", 0), ""), io.Discard) // where others are
	each(len(watchers), func(i int) {
		watchers[i].read(io.Discard)
		took[i] = time.Since(begin)
		watchers[i].await("middle-0")
	})
	s.awaitWatchers(len(watchers))
	figure(work, "all have the new list after", "%s", rounded(slices.Max(took)))
	figure(work, "all wait again after", "%s", rounded(time.Since(begin)))
	figure(work, "memory then", "%d MB", s.Memory("VmRSS")>>20)
	figure(work, "ordinary calls meanwhile", "%s", <-calls)
}

// await asks for news of a list that the client has.
func (c *client) await(world string) {
	must(c.conn.Write(c.request(1+c.n, "GET /api/event/"+world+"?wait=50", "If-None-Match: "+c.etag+"\r\n")))
}

func (s *server) awaitWatchers(n int) {
	servicetest.Eventually(&run, fmt.Sprint(n, " wait"), func() bool {
		_, metrics := s.AdminBody("/metrics")
		return strings.Contains(metrics, fmt.Sprintf("\nworldevents_list_watches %d\n", n))
	})
}

// callOrdinarily makes 100 calls a second for as long as news may take, and prints how long they took.
func callOrdinarily(addr string) {
	var c client
	c.dial(addr, 64<<10)
	var took []time.Duration
	calls := []call{list("tiny", 1, ""), session}
	for end := time.Now().Add(8 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		begin := time.Now()
		c.do(calls[len(took)%2](nil, &c), io.Discard)
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	fmt.Printf("half within %s, all within %s", rounded(took[len(took)/2]), rounded(took[len(took)-1]))
	os.Exit(0)
}

// delay measures how soon after the response to a change the watchers on two instances have it.
func (b *bench) delay() {
	const worlds, changes = 200, 10
	work := fmt.Sprintf("wait: %d creations a second in as many worlds", worlds)
	if !b.only.MatchString(work) {
		return
	}
	database := b.database()
	instances := []*server{b.start(b.builds[0], database, ""), b.start(b.builds[0], database, "")}
	var delays [2][worlds * changes]time.Duration
	each(worlds, func(n int) {
		world := fmt.Sprint("tiny-", n)
		clients := [3]client{{n: n}, {n: n}, {n: n}}
		for i := range clients {
			clients[i].dial(instances[i%2].addr, 1<<10)
			clients[i].do(clients[i].request(1+n, "GET /api/event/"+world, ""), io.Discard)
		}
		time.Sleep(rand.N(time.Second)) // the worlds are not in step
		for change := range changes {
			var at [3]time.Time
			each(3, func(i int) {
				if c := &clients[i]; i < 2 {
					c.await(world)
					c.read(io.Discard)
				} else {
					time.Sleep(time.Second)
					c.do(c.creation(world, ""), io.Discard)
				}
				at[i] = time.Now()
			})
			for i := range delays {
				delays[i][n*changes+change] = max(0, at[i].Sub(at[2]))
			}
		}
	})
	for i, where := range []string{"the same instance", "another"} {
		all := delays[i][:]
		slices.Sort(all)
		figure(work, "seen on "+where+": 50 %, 99 %, all", "%s, %s, %s", rounded(all[len(all)/2]), rounded(all[len(all)*99/100]), rounded(all[len(all)-1]))
	}
}

func rounded(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
