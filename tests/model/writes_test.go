package model

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

// noon is where most events are.
const noon = 1893456000000

var descriptions = rapid.SampledFrom([]string{"", "d", "tab\tline\nreturn\r\n", `"\/<b>&amp;`, "\u2028\ufeff😀\U0010ffff", strings.Repeat("long ", 200)})

func (m *machine) createOne(t *rapid.T) {
	m.createEvent(t, fmt.Sprintf("event %d", m.serial()), descriptions.Draw(t, "description"))
}

// createHuge makes the largest event that there can be.
func (m *machine) createHuge(t *rapid.T) {
	name := fmt.Sprintf("huge %d ", m.serial())
	m.createEvent(t, name+strings.Repeat("😀", 200-len(name)), strings.Repeat("😀", 5000))
}

func (m *machine) createEvent(t *rapid.T, name, description string) {
	m.createWithKey(t, name, description, rapid.SampledFrom([]string{"", fmt.Sprintf("key-%d", m.serial())}).Draw(t, "key"))
}

func (m *machine) createWithKey(t *rapid.T, name, description, key string) {
	c := m.client(t)
	e := c.createWith(m.world, name, description, key)
	if e == nil { // for which there is no reason
		panic(m.found.Load())
	}
	if key != "" {
		m.keyed = append(m.keyed, keyed{e, c.user, key, name, description, e.at})
	}
}

// keyed is how an event was created that has an Idempotency-Key.
type keyed struct {
	event             *event
	by                *user
	key               string
	name, description string
	at                int64
}

// repeatOne sends again what has created an event that is still there, whatever has become of it, or something else with its
// key. Nothing changes.
func (m *machine) repeatOne(t *rapid.T) {
	if len(m.keyed) == 0 {
		t.Skip("no key")
	}
	k := m.keyed[rapid.IntRange(0, len(m.keyed)-1).Draw(t, "keyed")]
	if !k.event.life.alive() || !k.by.life.alive() {
		t.Skip("the event or its creator is gone")
	}
	m.sendAgain(t, k, rapid.SampledFrom(repeats).Draw(t, "another"))
}

// repeatInAllWays makes an event, and sends its key again with each of repeats.
func (m *machine) repeatInAllWays(t *rapid.T) {
	n := m.serial()
	m.createWithKey(t, fmt.Sprintf("event %d", n), "repeated", fmt.Sprintf("key-%d", n))
	for _, another := range repeats {
		m.sendAgain(t, m.keyed[len(m.keyed)-1], another)
	}
}

// repeats are what differs when a key comes again.
var repeats = []string{"", "name", "description", "at"}

// sendAgain sends what has created an event that is still there, with its creator, or something else with its key.
func (m *machine) sendAgain(t *rapid.T, k keyed, another string) {
	switch another {
	case "name":
		k.name = "another " + k.key
	case "description":
		k.description = "another"
	case "at":
		k.at++
	}
	r, err := m.create(k.by, m.instance(t), m.world, k.name, k.description, min(k.at, 253402300799999), k.key)
	if another == "" || k.at > 253402300799999 {
		success(r, err)
		if id := r.header.Get("Event-Id"); id != k.event.id {
			fail("repeated: %s, want %s", id, k.event.id)
		}
	} else if ok(err); !r.is(409, "idempotency_conflict") {
		fail("another event with the same key: %v", r)
	}
}

// rejoin moves somebody to the end of an event's RSVPs, or to the middle. Who takes part without a session does it by
// SQL.
func (m *machine) rejoin(t *rapid.T) { m.rejoinIn(t, m.event(t)) }

func (m *machine) rejoinIn(t *rapid.T, e *event) {
	members := e.members()
	if len(members) == 0 {
		t.Skip("nobody")
	}
	u := members[rapid.SampledFrom([]int{0, len(members) / 2, len(members) - 1}).Draw(t, "member")].user
	for _, c := range m.clients {
		if c.user == u {
			c.draw = drawing(t)
			c.leaveEvent(e)
			c.joinEvent(e)
			return
		}
	}
	m.operator(t).move(e, u)
}

// removeOneUser removes a user, who then is nobody to the service. Somebody else signs in.
func (m *machine) removeOneUser(t *rapid.T) {
	m.operator(t).removeUser(m.world)
	for _, c := range m.clients {
		if c.user.life.alive() {
			continue
		}
		for _, r := range m.refused(t, c.user) {
			if !r.is(401, "invalid_token") {
				fail("on behalf of a user who is gone: %v", r)
			}
		}
		c.lost()
	}
}

// refused are the responses to a user who is gone.
func (m *machine) refused(t *rapid.T, u *user) []response {
	instance := m.instance(t)
	list, err := m.list(u, instance, m.world, wholeWorld(), "")
	ok(err)
	create, err := m.create(u, instance, m.world, "refused", "", noon, "")
	ok(err)
	held, err := m.list(u, instance, m.world, wholeWorld(), "*")
	ok(err)
	return []response{list, create, held}
}

// edit changes an event behind the service's back, which nobody may be reading meanwhile: events never change otherwise.
func (m *machine) edit(t *rapid.T) {
	if len(m.streams) > 0 || len(m.walks) > 0 {
		t.Skip("somebody reads")
	}
	e := m.event(t)
	e.description, e.json = descriptions.Draw(t, "description"), ""
	if rapid.Bool().Draw(t, "moves") {
		e.at = drawing(t).instant()
	}
	ok(m.change("UPDATE events SET description = ?, scheduled_at = ? WHERE id = ?", e.description, timeOf(e.at), e.id))
}
