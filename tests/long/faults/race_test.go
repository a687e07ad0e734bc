package faults

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"worldevents/tests/servicetest"
)

// eachProcess runs test twice: with two instances of the program on SQLite and on PostgreSQL, and the database.
func eachProcess(t *testing.T, test func(t *testing.T, db *servicetest.Database, a, b *servicetest.Process)) {
	for _, open := range databases {
		db := open(t)
		t.Run(db.Dialect, func(t *testing.T) {
			program := func() *servicetest.Process { return servicetest.NewProgram(t, "DATABASE_URL="+db.URL).ServeReady() }
			test(t, db, program(), program())
		})
	}
}

// Joins and leaves of one user, and looks at the list, at once and over two instances: there is an order of them that
// agrees with all responses (linearizability).
func TestJoinAndLeaveAreLinearizable(t *testing.T) {
	t.Parallel()
	const operations, clients = 500, 8
	eachProcess(t, func(t *testing.T, db *servicetest.Database, one, two *servicetest.Process) {
		transport := newTransport(clients)
		defer transport.CloseIdleConnections()
		host, alone := signIn(t, transport, one.URL, "host"), &guest{user: signIn(t, transport, one.URL, "guest")}
		event := host.creates(t, "w")
		for _, step := range []struct {
			method, path string
			joined       bool
		}{{"POST", "/api/event/join/", true}, {"DELETE", "/api/event/", false}, {"POST", "/api/event/join/", true}, {"DELETE", "/api/event/", false}} {
			if res := alone.Do(step.method, step.path+event, ""); res.Status != 200 || alone.joined(t) != step.joined {
				t.Fatalf("%s: %v", step.method, res)
			}
		}

		histories := make([][]porcupine.Operation, clients)
		var all sync.WaitGroup
		begin := time.Now()
		for client := range clients {
			all.Go(func() {
				g := &guest{user: alone.clone().on([]*servicetest.Process{one, two}[client%2]), event: event}
				for range (operations + clients - 1) / clients {
					op := porcupine.Operation{ClientId: client, Call: int64(time.Since(begin))}
					op.Input, op.Output = g.act(t)
					op.Return = int64(time.Since(begin))
					histories[client] = append(histories[client], op)
				}
			})
		}
		all.Wait()
		history := slices.Concat(histories...)
		servicetest.Is(t, porcupine.CheckOperationsTimeout(membership, history, time.Minute), porcupine.Ok, "the history")
		t.Logf("%d operations of %d clients over two instances: linearizable", len(history), clients)
	})
}

// membership is whether a user has joined: joining and leaving set it, and a list shows it.
var membership = porcupine.Model{
	Init: func() any { return false },
	Step: func(state, in, out any) (bool, any) {
		switch in {
		case "join":
			return true, true
		case "leave":
			return true, false
		}
		return out == state, state
	},
}

// guest is one browser of the user who joins the one event of world w, and leaves it.
type guest struct {
	*user
	event string
	seen  response // the list that the browser keeps
}

// act does anything, and returns what, and what it has seen.
func (g *guest) act(t *testing.T) (what string, joined any) {
	status := http.StatusOK
	switch rand.IntN(4) {
	case 0:
		what, status = "join", g.write("POST", "/api/event/join/"+g.event)
	case 1:
		what, status = "leave", g.write("DELETE", "/api/event/"+g.event)
	case 2:
		what, joined = "list", g.joined(t)
	case 3:
		what, joined = "list", g.joinedSince(t)
	}
	servicetest.Is(t, status, http.StatusOK, "%s", what)
	return what, joined
}

// write sends a request again that was refused, after a second of waiting for its turn on a machine that does much else.
func (g *guest) write(method, path string) (status int) {
	for status = 503; status == 503; {
		status = g.Do(method, path, "").Status
	}
	return status
}

// joined reports whether the guest is listed beside the host.
func (g *guest) joined(t *testing.T) bool { return len(g.list(t, "w").Events[0].RSVPs) == 2 }

// joinedSince asks for what may have changed since, as a browser does that keeps the response.
func (g *guest) joinedSince(t *testing.T) bool {
	if res := g.Do("GET", "/api/event/w", "", servicetest.IfNoneMatch(g.seen.Header.Get("ETag"))); res.Status == 200 {
		g.seen = res
	} else if res.Status != 304 {
		t.Errorf("list again: %v", res)
	}
	return strings.Contains(g.seen.Body, `"guest"`)
}
