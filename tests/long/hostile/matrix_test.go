package hostile

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// What must hold in each cell.
const (
	// patience is how long 99 % of the requests of honest users take at most. Where they take longer without an attacker, or where the
	// machine wakes a sleeper late, they may take that many times as long: the machine is busy.
	patience     = time.Second
	timesControl = 20
	// backWithin is how soon after the attacker has gone all is back.
	backWithin = 2 * time.Second
	// slack is how many goroutines and files may be open besides: connections to the database that were opened meanwhile, and those
	// that honest users keep.
	slack = 40
	// The heap that an attack may hold: for each request that waits for news, for each head of many lines, which net/http parses whole,
	// for each other one, and for all together, which is what responses may hold by server/internal/eventlist/holdings.go.
	heapOfWait, heapOfLines, heapOfRequest, heapOfAll = 40 << 10, 300 << 10, 64 << 10, 24 << 20
	// heldFor is how long an attack goes on at least once it is mounted.
	heldFor = 400 * time.Millisecond
)

// Whatever an attacker does, honest users beside it are served, it holds no more memory than its requests may, and what it held
// is back once it has gone.
func TestMatrix(t *testing.T) {
	services := make(map[string]*service)
	for i, c := range matrix(*cellCount, []string{direct, tlsPath, haproxy, nginx}) {
		key := c.path + "/" + c.database
		s := services[key]
		if s == nil {
			s = start(t, c.path, c.database)
			services[key] = s
		}
		begun := time.Now()
		faults, late := s.attacked(t, c, i)
		if len(faults) == 0 && late != "" { // which a machine that does much else can be the reason of once
			s.renew()
			if faults, late = s.attacked(t, c, i); late != "" {
				faults = append(faults, "twice late: "+late)
			}
		}
		t.Logf("%5.2f s %v", time.Since(begun).Seconds(), c)
		failed(t, c, faults)
		if len(faults) > 0 {
			s.renew() // the next cell finds what it would find alone
		}
	}
}

// renew starts the service again over its database.
func (s *service) renew() {
	s.kill()
	s.run()
}

// attacked runs a cell and returns what was wrong, and apart from that whether honest users were served late.
func (s *service) attacked(t *testing.T, c cell, number int) (faults []string, late string) {
	t.Helper()
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	control := s.work(false, func() bool { return true })
	busy, rest := servicetest.Oversleep()
	defer rest()
	cookies := s.signIn(c.accounts.n)
	s.tag = s.people[0].alice.Do("GET", "/api/event/sixty", "").Header.Get("ETag")
	before, err := s.useWithHeap()
	if err != nil {
		return []string{err.Error()}, ""
	}
	if s.least.heap == 0 {
		s.least = before
	}
	s.least.heap, s.least.files = min(s.least.heap, before.heap), min(s.least.files, before.files)
	mayEndEarly := c.accounts.n == 8
	a := s.begin(c, number, cookies, c.conns())
	mounted := a.mounted()
	heldSince := time.Time{}
	var during usage
	samples := s.work(mayEndEarly, func() bool {
		select {
		case <-mounted:
		default:
			return false
		}
		if heldSince.IsZero() {
			heldSince = time.Now()
		}
		if time.Since(heldSince) < heldFor {
			return false
		}
		during, err = s.useWithHeap()
		return true
	})
	if err != nil {
		fault("while the attack is held: %v", err)
	}
	if c.state.name == "wait" { // what they wait for comes: they are woken, and honest users with them
		samples = append(samples, s.people[0].await("/api/event/sixty", s.tag, mayEndEarly)...)
		samples = append(samples, s.work(mayEndEarly, func() bool { return true })...)
	}
	a.end()

	late = judgeHonest(control, samples, busy(), fault)
	s.judgeHeap(c, during, fault)
	s.judgeBack(before, c, fault)
	if len(faults) > 0 {
		fault("it made %d connections of %d; held while it went on: %v, %d goroutines, were %d, %d files, were %d", c.conns()-int(a.failed.Load()), c.conns(),
			during.held, during.goroutines, before.goroutines, during.files, before.files)
	}
	return faults, late
}

// begin has the attacker of a cell begin with n connections. Each has another address, so that no port is used up.
func (s *service) begin(c cell, number int, cookies []string, n int) *attack {
	texts := make([]string, max(1, len(cookies)))
	for i := range texts {
		texts[i] = c.request(s, cookies, i)
	}
	from := net.IPv4(127, 0, 1, byte(1+number%250))
	return begin(from, s.address(), s.secure(), n, func(i int) string { return texts[i%len(texts)] }, c.way.then)
}

// signIn signs attackers in and returns their cookies.
func (s *service) signIn(n int) (cookies []string) {
	for i := range n {
		b := s.people[0].browser(s.people[0].kept)
		b.SignIn(fmt.Sprint("attacker ", i)).Is(s.t, 303)
		cookies = append(cookies, "token="+b.Cookies["token"]+"; refreshToken="+b.Cookies["refreshToken"])
	}
	return cookies
}

// work has all honest users go on until done says so after a round of the first of them.
func (s *service) work(mayEndEarly bool, done func() bool) (all []sample) {
	var mu sync.Mutex
	var together sync.WaitGroup
	end := make(chan struct{})
	for i, p := range s.people {
		together.Go(func() {
			for {
				samples := p.round(mayEndEarly)
				mu.Lock()
				all = append(all, samples...)
				mu.Unlock()
				if i == 0 && done() {
					close(end)
				}
				select {
				case <-end:
					return
				default:
				}
			}
		})
	}
	together.Wait()
	return all
}

// judgeHonest has a fault for each request of an honest user that was refused, and returns whether too many were late.
func judgeHonest(control, samples []sample, busy time.Duration, fault func(string, ...any)) (late string) {
	sent, refused, first := make(map[string]int), make(map[string]int), make(map[string]string)
	for _, s := range samples {
		if sent[s.what]++; s.fault == "" {
			continue
		}
		if refused[s.what]++; refused[s.what] == 1 {
			first[s.what] = s.fault
		}
	}
	for _, what := range slices.Sorted(maps.Keys(refused)) {
		fault("honest: %d of %d refused: %s", refused[what], sent[what], first[what])
	}
	slow, usual := percentile(samples, 99), percentile(control, 100)
	if most := max(patience, timesControl*usual.took) + timesControl*busy; slow.took > most {
		return fmt.Sprintf("honest: 99 %% of %d requests within %v (%s), most allowed %v; without the attacker the slowest took %v, and half with it %v",
			len(samples), slow.took.Round(time.Millisecond), slow.what, most.Round(time.Millisecond), usual.took.Round(time.Millisecond), percentile(samples, 50).took.Round(time.Millisecond))
	}
	return ""
}

// mayHold reports whether the attack holds no more memory than its requests may, beyond the least that the service had without one.
func (s *service) mayHold(c cell, during usage) bool {
	each := heapOfRequest
	switch {
	case c.way.name == "many-lines", c.way.name == "many-names":
		each = heapOfLines
	case c.state.name == "wait":
		each = heapOfWait
	}
	lists := int(during.held[`held{of="list_bytes"}`]) * 5 / 4 // of which all together are bounded
	return during.heap-s.least.heap <= max(0, during.files-s.least.files)*each+heapOfAll+lists
}

func (s *service) judgeHeap(c cell, during usage, fault func(string, ...any)) {
	if held, grown := max(0, during.files-s.least.files), during.heap-s.least.heap; !s.mayHold(c, during) {
		fault("the heap grew by %.1f MB from %.1f MB, which is %.1f kB for each of %d connections", mega(grown), mega(s.least.heap), float64(grown)/1e3/float64(max(1, held)), held)
	}
}

func mega(bytes int) float64 { return float64(bytes) / 1e6 }

// judgeBack has a fault for what is not back in time.
func (s *service) judgeBack(before usage, c cell, fault func(string, ...any)) {
	var left []string
	for end := time.Now().Add(backWithin); ; time.Sleep(20 * time.Millisecond) {
		now, err := s.use()
		left = nil
		if err != nil {
			left = append(left, err.Error())
		}
		for name, value := range now.held {
			if value > before.held[name] && name != `held{of="connections"}` { // each of which is a file
				left = append(left, fmt.Sprintf("%s is %.0f, was %.0f", name, value, before.held[name]))
			}
		}
		// A proxy keeps connections, each of which has a goroutine in the service.
		most := slack + min(s.kept, c.conns())
		if now.goroutines > before.goroutines+most {
			left = append(left, fmt.Sprintf("%d goroutines, were %d", now.goroutines, before.goroutines))
		}
		if now.files > before.files+most {
			left = append(left, fmt.Sprintf("%d files, were %d", now.files, before.files))
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			break
		}
	}
	slices.Sort(left)
	fault("not back %v after the attacker has gone: %s", backWithin, strings.Join(left, "; "))
}
