package model

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// noon is where most events are.
const noon = 1893456000000

// instants are few, so that many events share one. Some are the first and the last that can be.
var instants = rapid.Custom(func(t *rapid.T) int64 {
	if rapid.IntRange(0, 19).Draw(t, "extreme") == 19 {
		return rapid.SampledFrom([]int64{0, 253402300799999}).Draw(t, "at")
	}
	return noon + int64(rapid.IntRange(0, 20).Draw(t, "second"))*1000 + int64(rapid.IntRange(0, 2).Draw(t, "millisecond"))
})

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
	u, at := m.client(t), instants.Draw(t, "at")
	r, err := m.create(u, m.instance(t), m.world, name, description, at, key)
	success(r, err)
	e := m.world.addEvent(r.header.Get("Event-Id"), name, description, at, life{r.call, r.ret, never, never})
	e.join(u, r.call, r.call, r.ret).life.know()
	if key != "" {
		m.keyed = append(m.keyed, keyed{e, u, key, name, description, at})
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
	if !k.event.life.alive() || !slices.Contains(m.clients, k.by) {
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

func (m *machine) joinOne(t *rapid.T) { m.joinEvent(t, m.client(t), m.event(t)) }

func (m *machine) joinEvent(t *rapid.T, u *user, e *event) {
	r, err := m.site.join(u, m.instance(t), e.id)
	success(r, err)
	if joined := e.join(u, r.call, r.call, r.ret); joined != nil {
		joined.life.know()
	}
}

func (m *machine) leaveOne(t *rapid.T) { m.leaveEvent(t, m.client(t), m.event(t)) }

func (m *machine) leaveEvent(t *rapid.T, u *user, e *event) {
	r, err := m.site.leave(u, m.instance(t), e.id)
	success(r, err)
	if joined := e.joined(u); joined != nil {
		joined.life.end(r.call, r.ret)
		e.json = ""
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
	r := members[rapid.SampledFrom([]int{0, len(members) / 2, len(members) - 1}).Draw(t, "member")]
	if r.user.token != "" {
		m.leaveEvent(t, r.user, e)
		m.joinEvent(t, r.user, e)
		return
	}
	call := now()
	ok(m.deleteRSVP(e, r.user))
	r.life.end(call, now())
	ok(m.fill(e, []*user{r.user}, lately(0), false))
}

// anybody is somebody who exists, with a session or without.
func (m *machine) anybody(t *rapid.T) *user {
	if len(m.crowd) > 0 && rapid.Bool().Draw(t, "of the crowd") {
		if u := m.crowd[rapid.IntRange(0, len(m.crowd)-1).Draw(t, "user")]; u.life.alive() {
			return u
		}
	}
	return m.client(t)
}

// renameOne gives a user a new name, or an earlier one back.
func (m *machine) renameOne(t *rapid.T) {
	u := m.anybody(t)
	name := u.names[0].name
	if name == u.name() || rapid.Bool().Draw(t, "new") {
		name = fmt.Sprintf("renamed %d", m.serial())
	}
	call := now()
	ok(m.change("UPDATE users SET username = ? WHERE id = ?", name, u.id))
	m.rename(u, name, call, now())
}

// removeOneUser removes a user, who then is nobody to the service. Somebody else signs in.
func (m *machine) removeOneUser(t *rapid.T) {
	u := m.anybody(t)
	call := now()
	ok(m.change("DELETE FROM users WHERE id = ?", u.id))
	m.removeUser(u, call, now())
	for i, c := range m.clients {
		if c != u {
			continue
		}
		for _, r := range m.refused(t, u) {
			if !r.is(401, "invalid_token") {
				fail("on behalf of a user who is gone: %v", r)
			}
		}
		next, err := m.signIn(m.state, fmt.Sprintf("next %d", m.serial()))
		ok(err)
		m.clients[i] = next
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

func (m *machine) removeOneEvent(t *rapid.T) {
	e := m.event(t)
	call := now()
	ok(m.change("DELETE FROM events WHERE id = ?", e.id))
	e.remove(call, now())
	r, err := m.site.join(m.client(t), m.instance(t), e.id)
	ok(err)
	if !r.is(404, "event_not_found") {
		fail("joining an event that is gone: %v", r)
	}
}

// edit changes an event behind the service's back, which nobody may be reading meanwhile: events never change otherwise.
func (m *machine) edit(t *rapid.T) {
	if len(m.streams) > 0 || len(m.walks) > 0 {
		t.Skip("somebody reads")
	}
	e := m.event(t)
	e.description, e.json = descriptions.Draw(t, "description"), ""
	if rapid.Bool().Draw(t, "moves") {
		e.at = instants.Draw(t, "at")
	}
	ok(m.change("UPDATE events SET description = ?, scheduled_at = ? WHERE id = ?", e.description, timeOf(e.at), e.id))
}
