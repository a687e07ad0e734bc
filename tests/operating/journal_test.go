package operating

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// Lines for systemd's journal begin with their priority, and others do not, whatever the variable says of another stream.
func TestJournalPriorities(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"json", "text"} {
		for _, journal := range []bool{true, false} {
			t.Run(fmt.Sprint(format, " ", journal), func(t *testing.T) {
				t.Parallel()
				read, write, err := os.Pipe()
				servicetest.NoError(t, err)
				defer read.Close()
				info, _ := write.Stat()
				stat := info.Sys().(*syscall.Stat_t)
				stream := fmt.Sprintf("JOURNAL_STREAM=%d:%d", stat.Dev, stat.Ino)
				if !journal {
					stream += "1"
				}
				p := servicetest.NewEmptyProgram(t, stream, "LOG_FORMAT="+format, "LOG_LEVEL=debug") // which warns of a new database
				s := p.ServeTo(write)
				s.Do("GET", servicetest.Plaza, "", "")
				os.Rename(p.Dir+"/worldevents.db", p.Dir+"/away")
				s.Readiness(503, servicetest.Soon)
				s.Stop()
				write.Close()
				seen := map[string]bool{}
				for lines := bufio.NewScanner(read); lines.Scan(); {
					text, prefix := lines.Text(), ""
					if journal {
						prefix, text = text[:3], text[3:]
					}
					var line struct{ Level string }
					if format == "json" {
						servicetest.Is(t, json.Unmarshal([]byte(text), &line), nil, "%s", text)
					} else if _, rest, ok := strings.Cut(text, " level="); ok && strings.HasPrefix(text, "time=") {
						line.Level, _, _ = strings.Cut(rest, " ")
					} else {
						t.Errorf("%s", lines.Text())
					}
					seen[line.Level] = true
					if want := map[string]string{"DEBUG": "<7>", "INFO": "<6>", "WARN": "<4>", "ERROR": "<3>"}[line.Level]; journal && prefix != want {
						t.Errorf("%s", lines.Text())
					}
				}
				servicetest.True(t, seen["INFO"] && seen["WARN"] && seen["ERROR"], "lines of all levels: %v", seen)
			})
		}
	}
}

// While the database is away the log has a cause once a second, with how many requests have failed since the line before. That the
// instance is not ready is one line.
func TestFailuresAreCounted(t *testing.T) {
	t.Parallel()
	proxy, through := servicetest.Postgres(t).ThroughProxy()
	p := servicetest.NewProgram(t, "DATABASE_URL="+through, "DB_TIMEOUT=2s", "LOG_FORMAT=json", "ACCESS_LOG=errors")
	proxy.Down()
	s := p.Serve()
	servicetest.Eventually(t, "three tries of the start", func() bool {
		return s.Metric(`worldevents_start_failures_total{state="unavailable"}`) >= 3
	})
	s.Says(`"msg":"not ready"`, 1)
	proxy.Up()
	s.Readiness(200, servicetest.Soon)
	cookies := p.Issue("alice")
	proxy.Down()
	var failed atomic.Int64
	begun := time.Now()
	ask := func(int) {
		if status, _ := s.Do("GET", servicetest.Plaza, "", cookies); status >= 500 {
			failed.Add(1)
		}
	}
	servicetest.AtOnce(400, ask)
	time.Sleep(time.Second)
	ask(0) // whose line counts those of the last second
	servicetest.Eventually(t, "lines for all", func() bool {
		var all int64
		for line := range strings.Lines(s.Log.String()) {
			var l struct{ Requests int64 }
			json.Unmarshal([]byte(line), &l)
			all += l.Requests
		}
		return all == failed.Load()
	})
	n, most := strings.Count(s.Log.String(), `"msg":"request failed"`), 2+int(time.Since(begun)/time.Second)
	if failed.Load() < 350 || n > most {
		t.Errorf("%d requests failed, of which %d have a line, and %d may", failed.Load(), n, most)
	}
}
