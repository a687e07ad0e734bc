package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"worldevents/tests/servicetest"
)

var jwtKey = []byte("0123456789abcdefghijklmnopqrstuvwxyz-bench")

// server is a process under measurement, and what its users have done so far: that goes on from row to row.
type server struct {
	*servicetest.Process
	name, addr, database string
	clients              [256]client
	joins, leaves, keys  atomic.Int64
}

// servers are a reference, or all builds of the service with a setting. The first call starts them.
func (b *bench) servers(of string) (all []*server) {
	if all = b.started[of]; all != nil {
		return all
	}
	builds, setting := b.builds, of
	if of == reference || of == unmarked {
		builds, setting = []build{{of, must(os.Executable())}}, ""
	}
	for _, build := range builds {
		if of == onSQLite {
			all = append(all, b.start(build, b.sqliteFile().URL, readEachTime))
		} else {
			all = append(all, b.start(build, b.database(), setting))
		}
		if of == unmarked {
			b.seed(all[0].database, []string{"ALTER TABLE events DISABLE TRIGGER USER", "ALTER TABLE rsvps DISABLE TRIGGER USER"})
		}
	}
	b.started[of] = all
	return all
}

// start begins a server, and waits until it is ready.
func (b *bench) start(of build, database string, settings ...string) *server {
	p := b.program(of, database, settings...)
	return &server{Process: p.ServeTo(must(os.OpenFile(os.DevNull, os.O_WRONLY, 0))), name: of.name, addr: p.Getenv("LISTEN_ADDR"), database: database}
}

// program has the settings of production.
func (b *bench) program(of build, database string, settings ...string) *servicetest.Program {
	p := servicetest.NewEmptyProgram(b, append(settings,
		"GOMEMLIMIT=420MiB", "GODEBUG=adaptivestackstart=0", // as deploy/ has them
		"APP_ENV=production", "BASE_URL=https://api.example.org", "JWT_SECRET="+string(jwtKey),
		"DATABASE_URL="+database, fmt.Sprint("DB_MAX_CONNS=", poolSize))...).At(must(filepath.Abs(of.path)))
	der := must(x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed(jwtKey[:ed25519.SeedSize])))
	check(os.WriteFile(filepath.Join(p.Dir, "jwt.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	return p
}

// cpu is the processor time of the process, 0 for none.
func (s *server) cpu() time.Duration {
	if s == nil {
		return 0
	}
	return processorTime(s.Pid())
}

func processorTime(pid int) (total time.Duration) {
	paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, path := range paths {
		text, _ := os.ReadFile(path) // none of a thread that has ended
		onCPU, _, _ := strings.Cut(string(text), " ")
		nanoseconds, _ := strconv.ParseInt(onCPU, 10, 64)
		total += time.Duration(nanoseconds)
	}
	return total
}
