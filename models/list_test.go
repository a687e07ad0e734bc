package models_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// Each batch of a large event brings the RSVPs that come next just then, whoever joins, leaves and is renamed between the batches,
// whoever joined together, and however long the names are; and none from after the reading began.
func TestLargeEventInBatches(t *testing.T) {
	servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
		settings := []string{"", "timezone=Asia/Kathmandu", "default_query_exec_mode=exec"}
		if db.Dialect == "sqlite" {
			settings = settings[:1]
		}
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		m := newRSVPs(db, rand.New(rand.NewPCG(seed, 0)), 7000)
		for _, set := range settings {
			u, err := url.Parse(db.URL)
			if err != nil {
				t.Fatal(err)
			}
			u.RawQuery = strings.Trim(u.RawQuery+"&"+set, "&")
			store, err := models.Open(models.Options{URL: u.String(), MaxConns: 1, Timeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			for range 3 {
				m.read(t, store)
			}
		}
	})
}

// rsvps are those of the one event of world w, as they ought to be. Users are numbered in the order in which they were made.
type rsvps struct {
	db     *servicetest.Database
	random *rand.Rand
	names  []string
	joined []int // when, in microseconds; 0 for users who have not
}

// span is how many microseconds lie between the first RSVP and the last. In their middle a second ends.
const span = 7000

func instant(n int) string {
	return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(n-span/2) * time.Microsecond).Format("2006-01-02 15:04:05.999999-07:00")
}

func newRSVPs(db *servicetest.Database, random *rand.Rand, n int) *rsvps {
	m := &rsvps{db, random, make([]string, n), make([]int, n)}
	db.Exec("INSERT INTO events (id, world_id, name, description, scheduled_at, created_at) VALUES (?, 'w', 'n', '', ?, ?)",
		servicetest.IDOf(0), servicetest.At(2030), servicetest.At(2030))
	var rows []string
	var users []int
	for i := range n {
		m.names[i] = m.newName(i)
		begin, end := 1, span*3/4
		if random.IntN(4) == 0 { // those with long names come last
			m.names[i] += strings.Repeat("𝄞", 90)
			begin, end = end, span
		}
		rows = append(rows, fmt.Sprintf("('00000000-0000-7000-9000-%012d', '%s', '2030-01-01 00:00:00+00:00')", i, m.names[i]))
		if random.IntN(10) > 0 {
			m.joined[i] = begin + random.IntN(end-begin)
			if random.IntN(2) == 0 {
				m.joined[i] -= (m.joined[i] - begin) % 200 // with many others
			}
			users = append(users, i)
		}
	}
	for rows := range slices.Chunk(rows, 500) {
		db.Exec("INSERT INTO users (id, username, created_at) VALUES " + strings.Join(rows, ", "))
	}
	for users := range slices.Chunk(users, 500) {
		m.join(users...)
	}
	return m
}

// join writes the RSVPs of users.
func (m *rsvps) join(users ...int) {
	at := "at"
	if m.db.Dialect == "postgres" {
		at = "CAST(at AS timestamptz)"
	}
	var rows []string
	for _, i := range users {
		rows = append(rows, fmt.Sprintf("('%s', '%s')", m.names[i], instant(m.joined[i])))
	}
	m.db.Exec("WITH these (who, at) AS (VALUES " + strings.Join(rows, ", ") + ") INSERT INTO rsvps (event_number, user_number, username, created_at)" +
		" SELECT e.number, u.number, u.username, " + at + " FROM events e, these JOIN users u ON u.username = who")
}

func (m *rsvps) newName(user int) string {
	return fmt.Sprintf("%d %d%s", user, m.random.IntN(1e6), strings.Repeat("é", m.random.IntN(20)))
}

// change has somebody join, leave or get another name: anybody, or one near the position that has been read.
func (m *rsvps) change(at, user int) {
	i := m.random.IntN(len(m.names))
	if m.random.IntN(2) == 0 {
		i = min(max(0, user+m.random.IntN(5)-2), len(m.names)-1)
	}
	switch {
	case m.random.IntN(5) == 0:
		name := m.newName(i)
		m.db.Exec("UPDATE users SET username = ? WHERE username = ?", name, m.names[i])
		m.names[i] = name
	case m.joined[i] > 0:
		m.db.Exec("DELETE FROM rsvps WHERE user_number = (SELECT number FROM users WHERE username = ?)", m.names[i])
		m.joined[i] = 0
	default:
		m.joined[i] = []int{1 + m.random.IntN(span), max(1, at), slices.Max(m.joined) + 1}[m.random.IntN(3)]
		m.join(i)
	}
}

// next are the users who come after a position, up to until.
func (m *rsvps) next(at, user, until int) (users []int) {
	for i, joined := range m.joined {
		if joined > 0 && joined <= until && (joined > at || joined == at && i > user) {
			users = append(users, i)
		}
	}
	slices.SortStableFunc(users, func(a, b int) int { return m.joined[a] - m.joined[b] })
	return users
}

// read reads the list of the world in batches of both sizes, with changes between them.
func (m *rsvps) read(t *testing.T, store *models.Store) {
	t.Helper()
	list, sink := store.List(models.ListOptions{WorldID: "w"}), new(usernames)
	if err := list.Next(t.Context(), models.Caller{}, sink); err != nil || sink.events != 1 || sink.Size() > 0 {
		t.Fatalf("%d events, %q, %v", sink.events, sink.text, err)
	}
	at, user, until, whole, empty, batches := 0, -1, slices.Max(m.joined), false, 0, 0
	for small := m.random.IntN(2) == 0; ; batches++ {
		for range m.random.IntN(4) {
			m.change(at, user)
		}
		if user < 0 { // none has been read
			until = slices.Max(m.joined)
		}
		if m.random.IntN(8) == 0 {
			small = !small
		}
		list.SetSmall(small)
		sink.Truncate(0)
		want := m.next(at, user, until)
		if err := list.Next(t.Context(), models.Caller{}, sink); err != nil {
			t.Fatal(err)
		}
		got := sink.names()
		if list.Done {
			if !whole || len(got) > 0 {
				t.Fatalf("the event ends %d batches and %d RSVPs early, with %q", batches, len(want), got)
			}
			break
		}
		limit := 160 << 10
		if small {
			limit = 4 << 10
		}
		if empty++; len(got) > 0 {
			empty = 0
		}
		if len(got) > len(want) || len(got) > 1 && sink.Size() > limit+1 || empty > 5 {
			t.Fatalf("batch %d: %d RSVPs of %d in %d bytes, %d batches without any", batches, len(got), len(want), sink.Size(), empty)
		}
		for i, name := range got {
			if m.names[want[i]] != name {
				t.Fatalf("batch %d: RSVP %d of %d is %q, want %q", batches, i, len(got), name, m.names[want[i]])
			}
			at, user = m.joined[want[i]], want[i]
		}
		whole = len(got) == len(want)
	}
	t.Logf("%d batches", batches)
}

// usernames is a sink that keeps the names of RSVPs.
type usernames struct {
	events int
	text   []byte
}

func (s *usernames) Event(models.ID, []byte, []byte, time.Time) { s.events++ }

func (s *usernames) Usernames(text []byte) { s.text = append(append(s.text, text...), '\n') }

func (s *usernames) Size() int { return len(s.text) }

func (s *usernames) Truncate(size int) { s.text = s.text[:size] }

func (s *usernames) names() []string {
	if len(s.text) == 0 {
		return nil
	}
	return strings.Split(string(bytes.TrimSuffix(s.text, []byte("\n"))), "\n")
}
