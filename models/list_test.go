package models_test

import (
	"context"
	"errors"
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

// A list has all RSVPs of an event in the order of joining, whoever joined together, left or was renamed, however long the names are, and
// in whatever form the database sends its rows.
func TestLargeEvent(t *testing.T) {
	servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
		settings := []string{"", "timezone=Asia/Kathmandu", "default_query_exec_mode=exec"}
		if db.Dialect == "sqlite" {
			settings = settings[:1]
		}
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		m := newRSVPs(db, rand.New(rand.NewPCG(seed, 0)), 7000)
		for _, set := range settings {
			u := servicetest.Must(url.Parse(db.URL))(t)
			u.RawQuery = strings.Trim(u.RawQuery+"&"+set, "&")
			store := servicetest.Must(models.Open(models.Options{URL: u.String(), MaxConns: 1, Timeout: time.Minute}))(t)
			defer store.Close()
			for range 3 {
				for range 20 {
					m.change()
				}
				var got usernames
				servicetest.Must(store.ReadList(t.Context(), models.ListOptions{WorldID: "w"}, models.Caller{}, &got))(t)
				if want := m.want(); !slices.Equal(got, want) {
					t.Fatalf("%d RSVPs, want %d", len(got), len(want))
				}
			}
		}
	})
}

// A reading of which no more is wanted ends, and the next one finds a connection.
func TestListEndsEarly(t *testing.T) {
	servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
		for i := range 200 {
			db.Exec("INSERT INTO events (id, world_id, name, description, scheduled_at, created_at) VALUES (?, 'w', 'n', ?, ?, ?)",
				servicetest.IDOf(i), strings.Repeat("d", 20_000), servicetest.At(2030), servicetest.At(2030))
		}
		store := servicetest.Must(models.Open(models.Options{URL: db.URL, MaxConns: 1, Timeout: time.Minute}))(t)
		defer store.Close()
		for range 20 {
			some := few(3)
			list, err := store.ReadList(t.Context(), models.ListOptions{WorldID: "w"}, models.Caller{}, &some)
			if err != nil || some != 0 || list.Moment.IsZero() {
				t.Fatalf("%d more events, %+v, %v", some, list, err)
			}
		}
	})
}

// few is a sink that wants so many events.
type few int

func (*few) Begin() {}

func (f *few) Event(*models.ListedEvent) (more bool) {
	*f--
	return *f > 0
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

// change has somebody join, leave or get another name.
func (m *rsvps) change() {
	i := m.random.IntN(len(m.names))
	switch {
	case m.random.IntN(5) == 0:
		name := m.newName(i)
		m.db.Exec("UPDATE users SET username = ? WHERE username = ?", name, m.names[i])
		m.names[i] = name
	case m.joined[i] > 0:
		m.db.Exec("DELETE FROM rsvps WHERE user_number = (SELECT number FROM users WHERE username = ?)", m.names[i])
		m.joined[i] = 0
	default:
		m.joined[i] = 1 + m.random.IntN(span)
		m.join(i)
	}
}

// want are the names of those who have joined, in that order.
func (m *rsvps) want() (names []string) {
	var users []int
	for i, joined := range m.joined {
		if joined > 0 {
			users = append(users, i)
		}
	}
	slices.SortStableFunc(users, func(a, b int) int { return m.joined[a] - m.joined[b] })
	for _, i := range users {
		names = append(names, m.names[i])
	}
	return names
}

// usernames is a sink that keeps the names of RSVPs.
type usernames []string

func (s *usernames) Begin() { *s = nil }

func (s *usernames) Event(v *models.ListedEvent) (more bool) {
	*s = append(*s, strings.Split(string(v.Usernames), "\n")...)
	return true
}

// A reading that takes too long is told from a server that does not respond: others go on with their connections.
func TestListTimeout(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	proxy, url := db.ThroughProxy()
	store := servicetest.Must(models.Open(models.Options{URL: url, MaxConns: 2, Timeout: time.Minute}))(t)
	defer store.Close()
	read := func(d time.Duration) error {
		ctx := context.WithValue(t.Context(), models.Deadline{}, time.Now().Add(d))
		_, err := store.ReadList(ctx, models.ListOptions{WorldID: "w"}, models.Caller{}, new(textSink))
		return err
	}
	servicetest.NoError(t, read(time.Minute))
	proxy.Silence()
	if err := read(100 * time.Millisecond); !errors.Is(err, models.ErrBusy) || errors.Is(err, models.ErrTimeout) {
		t.Error(err)
	}
}
