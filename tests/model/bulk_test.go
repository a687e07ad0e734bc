package model

import (
	"strings"
	"time"

	"pgregory.net/rapid"
)

func timeOf(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// Around the numbers at which the service reads differently.
var (
	manyEvents = rapid.SampledFrom([]int{1, 2, 126, 127, 128, 129, 255, 256, 257, 300, 512, 1000, 1023, 1024, 1025, 1300})
	manyUsers  = rapid.SampledFrom([]int{1, 254, 255, 256, 257, 258, 600, 4095, 4096, 4097, 6000})
)

// most bounds what bulks come to, in bytes of descriptions and in RSVPs.
const mostText, mostRSVPs = 8 << 20, 16000

func (m *machine) bulk(t *rapid.T) {
	m.addSome(t, bulk{
		n: manyEvents.Draw(t, "events"), at: drawing(t).instant(), text: m.text(t),
		step:      int64(rapid.SampledFrom([]int{0, 0, 1, 1000}).Draw(t, "step")),
		backwards: rapid.Bool().Draw(t, "backwards"),
		rank:      rapid.SampledFrom([]int{0, 1 << 20, 1 << 31}).Draw(t, "rank"),
	})
}

// begin makes a world so large that buffers do not hold it.
func (m *machine) begin(t *rapid.T) {
	m.addSome(t, bulk{
		n: rapid.SampledFrom([]int{1000, 300, 127, 1025}).Draw(t, "events"), at: noon, text: strings.Repeat("é\n", 1500),
		step: int64(rapid.SampledFrom([]int{1000, 0}).Draw(t, "step")),
	})
}

// crowdedStream begins to read an event of very many RSVPs, of which some move to the end meanwhile.
func (m *machine) crowdedStream(t *rapid.T) {
	events, _ := m.world.page(wholeWorld())
	if len(events) == 0 {
		t.Skip("no event")
	}
	e := events[0] // others would be read long after
	m.fillSome(t, events[:1], rapid.SampledFrom([]int{12000, 6000}).Draw(t, "users"))
	m.openSlowly(t, wholeWorld())
	m.readSome(t)
	for range rapid.IntRange(1, 3).Draw(t, "moves") {
		m.rejoinIn(t, e)
	}
}

// pageWithGap begins to read a page, into which many events come meanwhile.
func (m *machine) pageWithGap(t *rapid.T) {
	m.openPage(t)
	m.readSome(t)
	m.bulkInGap(t)
}

// bulkInGap makes many events between two that are there, or behind one.
func (m *machine) bulkInGap(t *rapid.T) {
	events, _ := m.world.page(wholeWorld())
	if len(events) == 0 {
		t.Skip("no event")
	}
	before := events[rapid.IntRange(0, len(events)-1).Draw(t, "before")]
	step := int64(rapid.IntRange(0, 1).Draw(t, "step"))
	m.addSome(t, bulk{n: manyEvents.Draw(t, "events"), at: before.at + step, step: step, text: m.text(t), rank: 1 << 30})
}

// text is drawn in parts that print short.
func (m *machine) text(t *rapid.T) string {
	letter := rapid.SampledFrom([]string{"t", "é\n", "😀"}).Draw(t, "letter") // of one, three and four bytes
	return strings.Repeat(letter, rapid.SampledFrom([]int{0, 50, 250, 500, 1000, 2490}).Draw(t, "letters"))
}

func (m *machine) addSome(t *rapid.T, b bulk) {
	text := 0
	for _, e := range m.world.events {
		text += len(e.description)
	}
	if text+b.n*len(b.text) > mostText || b.at+int64(b.n)*b.step > 253402300799999 {
		t.Skip("too much")
	}
	ok(m.addBulk(m.world, b))
}

// fillOne gives one event many RSVPs.
func (m *machine) fillOne(t *rapid.T) {
	e := m.event(t)
	m.fillSome(t, []*event{e}, manyUsers.Draw(t, "users"))
}

// fillAll gives all events, as far as that goes, RSVPs of the same users.
func (m *machine) fillAll(t *rapid.T) {
	n := rapid.SampledFrom([]int{1, 10, 256, 257}).Draw(t, "users")
	events, _ := m.world.page(wholeWorld())
	m.fillSome(t, events[:min(len(events), max(0, mostRSVPs-m.rsvps())/n)], n)
}

func (m *machine) rsvps() (n int) {
	for _, e := range m.world.events {
		n += len(e.rsvps)
	}
	return n
}

func (m *machine) fillSome(t *rapid.T, events []*event, n int) {
	if len(events) == 0 || m.rsvps()+n*len(events) > mostRSVPs {
		t.Skip("no event, or too much")
	}
	if more := n - len(m.crowd); more > 0 {
		users, err := m.site.crowd(m.state, more, rapid.SampledFrom([]int{100, 100, 1, 40}).Draw(t, "name"))
		ok(err)
		m.crowd = append(m.crowd, users...)
	}
	var alive []*user
	for _, u := range m.crowd[:n] {
		if u.life.alive() {
			alive = append(alive, u)
		}
	}
	first, apart := past, rapid.Bool().Draw(t, "apart")
	if rapid.Bool().Draw(t, "late") {
		first = lately(len(alive))
	}
	for _, e := range events {
		ok(m.fill(e, alive, first, apart))
	}
}
