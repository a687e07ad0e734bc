package model

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// TestBreaking has everybody do everything at once while the instances and PostgreSQL end and come back. What a client or an
// instance has from before must not be confirmed by a position of a server that has begun to count anew.
func TestBreaking(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		breaking(t, servicetest.SQLite(t), nil)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		server := servicetest.NewPostgresServer(t, "fsync=off") // the machine itself does not lose power
		db := server.Database()
		servicetest.NewProgram(t, "DATABASE_URL="+db.URL).MustRun("migrate")
		breaking(t, db, server)
	})
}

// breaking asks two processes of the service. The instances of the test's own process stand by to sign users in, and for the operator.
func breaking(t *testing.T, db *servicetest.Database, server *servicetest.PostgresServer) {
	s := newSite(t, db)
	s.breaker = &breaker{server: server}
	for i := range s.urls {
		program := servicetest.NewProgram(t, "DATABASE_URL="+db.URL, "BASE_URL="+baseURL, "DEVELOPMENT_PUBLIC=true", "LOG_LEVEL=error", "DB_MAX_CONNS=5")
		s.breaker.programs[i], s.breaker.processes[i] = program, program.ServeReady()
		s.urls[i] = s.breaker.processes[i].URL
	}
	repeat(t, 1, breakingShare, func() {
		r := &round{site: s, state: newState(), seed: rand.Uint64()}
		r.run(t)
	})
	t.Logf("%d times something was broken", s.breaker.times)
}

// breaker ends parts of a site, one at a time, and starts them again.
type breaker struct {
	server    *servicetest.PostgresServer // nil for SQLite
	programs  [2]*servicetest.Program
	processes [2]*servicetest.Process
	times     int
}

// breakPace is the time between two tries of what fails, while something is broken.
const breakPace = 25 * time.Millisecond

// run breaks something after each few requests.
func (b *breaker) run(r *round) {
	random := rand.New(rand.NewPCG(r.seed, 1<<33))
	for next := int64(0); r.going(); {
		if r.requests.Load() < next {
			time.Sleep(breakPace)
			continue
		}
		b.one(random)
		b.times++
		next = r.requests.Load() + 20 + random.Int64N(60)
	}
}

// one breaks something, and returns when both instances are ready again.
func (b *breaker) one(random *rand.Rand) {
	what := random.IntN(3)
	if b.server == nil {
		what = 0
	}
	switch what {
	case 0:
		i := random.IntN(2)
		b.processes[i].Signal(syscall.SIGKILL)
		b.processes[i].Wait(time.Minute)
		b.processes[i] = b.programs[i].ServeReady()
	case 1:
		b.server.CrashBackend()
	case 2:
		b.server.Kill()
		b.server.Start()
	}
	for _, p := range b.processes {
		p.Readiness(200, time.Minute)
	}
}

// insist does something of the test's own, again while it fails because something is broken. It must do no harm a second time.
func (s *site) insist(do func() error) (err error) {
	for deadline := time.Now().Add(busyPatience); ; time.Sleep(breakPace) {
		if err = do(); err == nil || s.breaker == nil || time.Now().After(deadline) {
			return err
		}
	}
}
