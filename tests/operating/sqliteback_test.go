package operating

import (
	"os"
	"strings"
	"testing"
	"time"
)

// The file and its log are moved away, and back. The write that was committed meanwhile is there then, so its client was not told
// that nothing has happened, as those were whose writes are not.
func TestSQLiteFileComesBack(t *testing.T) {
	t.Parallel()
	s := serveSQLite(t)
	if _, status, body := s.create(); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	move := func(from, to string) {
		t.Helper()
		for _, file := range []string{"", "-wal", "-shm"} {
			if err := os.Rename(from+file, to+file); err != nil {
				t.Fatal(err)
			}
		}
	}
	move(s.file, s.file+".away")
	committed, status, body := s.create()
	if status != 500 || !strings.Contains(body, `"code":"internal"`) || !strings.Contains(body, `"detail":"create event: database unavailable"`) {
		t.Errorf("%d %s", status, body)
	}
	refused, status, body := s.create()
	if status != 503 || !strings.Contains(body, `"code":"overloaded"`) {
		t.Errorf("%d %s", status, body)
	}
	move(s.file+".away", s.file)
	s.Readiness(200, 20*time.Second)
	if kept := s.kept(t); !kept[committed] || kept[refused] {
		t.Errorf("there are %v", kept)
	}
}
