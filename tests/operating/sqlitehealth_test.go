package operating

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

const takesNoWrites = "the database takes no writes"

// sqliteService is the service over a SQLite file that a symbolic link leads to.
type sqliteService struct {
	*servicetest.Process
	dir, file string // the link is beside the folder of the file
	cookies   string
	program   *servicetest.Program
	made      atomic.Int64
}

func serveSQLite(t *testing.T) *sqliteService {
	t.Helper()
	p := servicetest.NewProgram(t, "DATABASE_URL=sqlite:link.db", "LOG_FORMAT=json")
	s := &sqliteService{program: p, dir: filepath.Join(p.Dir, "data")}
	s.file = filepath.Join(s.dir, "real.db")
	servicetest.NoError(t, os.Mkdir(s.dir, 0o700))
	servicetest.NoError(t, os.Symlink("data/real.db", filepath.Join(p.Dir, "link.db")))
	s.Process = p.ServeReady()
	s.cookies = p.Issue("alice")
	return s
}

// create creates an event and returns its name and the status.
func (s *sqliteService) create() (name string, status int, body string) {
	name = fmt.Sprint("event ", s.made.Add(1))
	status, body = s.Do("POST", servicetest.Plaza, fmt.Sprintf(`{"name":%q,"description":"","scheduledAt":%q}`, name, servicetest.When), s.cookies)
	return name, status, body
}

// creates creates an event, which must succeed, and returns its name.
func (s *sqliteService) creates(t *testing.T) string {
	t.Helper()
	name, status, body := s.create()
	servicetest.Is(t, status, 200, "%s", body)
	return name
}

// isRefused creates an event, which must fail in this way, and returns its name.
func (s *sqliteService) isRefused(t *testing.T, want int, part string) string {
	t.Helper()
	name, status, body := s.create()
	servicetest.Is(t, status, want, "%s", body)
	servicetest.Contains(t, body, part)
	return name
}

// kept is the names of the events that there are.
func (s *sqliteService) kept(t *testing.T) (kept map[string]bool) {
	t.Helper()
	body := s.Is(200, "GET", servicetest.Plaza, "", s.cookies)
	kept = make(map[string]bool)
	for _, name := range servicetest.EventNames(t, body) {
		kept[name] = true
	}
	return kept
}

// writers create events until stop is called, which returns the names of those acknowledged. None may be acknowledged
// that begins and ends while closed.
func (s *sqliteService) writers(t *testing.T, closed *atomic.Bool) (stop func() []string) {
	var all sync.WaitGroup
	var mu sync.Mutex
	var acknowledged []string
	var end atomic.Bool
	for range 4 {
		all.Go(func() {
			for !end.Load() {
				begunClosed := closed.Load()
				name, status, body := s.create()
				switch {
				case status == 200 && begunClosed && closed.Load():
					t.Errorf("%s is acknowledged, and nothing leads to it", name)
				case status == 200:
					mu.Lock()
					acknowledged = append(acknowledged, name)
					mu.Unlock()
				case status == 500 && strings.Contains(body, `"detail":"create event: database unavailable"`): // it may be there
				case status != 503 || !strings.Contains(body, `"code":"overloaded"`):
					t.Errorf("%d %s", status, body)
				}
			}
		})
	}
	return func() []string {
		end.Store(true)
		all.Wait()
		return acknowledged
	}
}

// While the path leads to another file, or to none, nothing is acknowledged and the instance is not ready. It recovers when
// the file is put back, and nothing that was acknowledged is lost.
func TestSQLiteFileIsReplaced(t *testing.T) {
	t.Parallel()
	away := func(file string) func(s *sqliteService) error {
		return func(s *sqliteService) error { return os.Rename(s.file+file, s.file+file+".away") }
	}
	back := func(file string) func(s *sqliteService) error {
		return func(s *sqliteService) error { return os.Rename(s.file+file+".away", s.file+file) }
	}
	link := func(target string) func(s *sqliteService) error {
		return func(s *sqliteService) error {
			path := filepath.Join(s.program.Dir, "link.db")
			return errors.Join(os.Symlink(target, path+".new"), os.Rename(path+".new", path))
		}
	}
	for _, test := range []struct {
		name    string
		replace func(s *sqliteService) error
		restore func(s *sqliteService) error
		words   string
	}{
		{"the file is gone", away(""), back(""), "removed"},
		{"the log is gone", away("-wal"), back("-wal"), "removed"},
		{"the index is gone", away("-shm"), back("-shm"), "removed"},
		{"the folder is gone", func(s *sqliteService) error { return os.Rename(s.dir, s.dir+".away") },
			func(s *sqliteService) error { return os.Rename(s.dir+".away", s.dir) }, "removed"},
		{"a copy in its place", func(s *sqliteService) error {
			content, err := os.ReadFile(s.file)
			return errors.Join(err, os.WriteFile(s.file+".copy", content, 0o600), os.Link(s.file, s.file+".away"), os.Rename(s.file+".copy", s.file))
		}, back(""), "replaced"},
		{"an empty file in its place", func(s *sqliteService) error {
			return errors.Join(os.Link(s.file, s.file+".away"), os.Remove(s.file), os.WriteFile(s.file, nil, 0o600))
		}, back(""), "replaced"},
		{"the link leads elsewhere", func(s *sqliteService) error {
			return errors.Join(os.WriteFile(s.file+".other", nil, 0o600), link("data/real.db.other")(s))
		}, link("data/real.db"), "replaced"},
		{"the link is gone", func(s *sqliteService) error { return os.Remove(filepath.Join(s.program.Dir, "link.db")) }, link("data/real.db"), "removed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := serveSQLite(t)
			s.creates(t)
			var closed atomic.Bool
			stop := s.writers(t, &closed)
			servicetest.NoError(t, test.replace(s))
			if test.name == "the file is gone" || test.words == "replaced" {
				closed.Store(true) // from the moment on that it is
			}
			s.Readiness(503, servicetest.Soon)
			closed.Store(true)
			for range 20 {
				servicetest.Is(t, s.Admin("/livez"), 200, "/livez")
				servicetest.Is(t, s.Admin("/readyz"), 503, "/readyz")
			}
			closed.Store(false)
			servicetest.NoError(t, test.restore(s))
			s.Readiness(200, servicetest.Soon)
			s.creates(t)
			acknowledged := stop()
			s.Says(takesNoWrites, 1)
			s.AwaitLog(test.words + " while it was open")
			s.Stop()
			s.Process = s.program.ServeReady()
			kept := s.kept(t)
			for _, name := range acknowledged {
				servicetest.True(t, kept[name], "%s was acknowledged, and is there", name)
			}
		})
	}
}

// The first write after the file was removed is no success, whether anybody asks for readiness or not. It was committed before that
// was seen, and later ones are refused.
func TestSQLiteFileIsRemoved(t *testing.T) {
	t.Parallel()
	s := serveSQLite(t)
	s.creates(t)
	servicetest.NoError(t, os.Remove(s.file))
	s.isRefused(t, 500, `"code":"internal"`)
	for range 4 {
		s.isRefused(t, 503, `"code":"overloaded"`)
	}
	s.Says(takesNoWrites, 1)
	servicetest.True(t, !slices.Contains(folderOf(t, s.dir), "real.db"), "no other file is made")
}

// The file was moved while an instance runs on it: no command makes another one in its place, where SQLite would delete the log, and
// with the file back nothing is lost. So it is when the log was left by a process that was killed.
func TestSQLiteFileIsMoved(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"nothing", "an empty file"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			s := serveSQLite(t)
			name := s.creates(t)
			log, err := os.ReadFile(s.file + "-wal")
			servicetest.NoError(t, errors.Join(err, os.Rename(s.file, s.file+".away")))
			if place == "an empty file" {
				servicetest.NoError(t, os.WriteFile(s.file, nil, 0o600))
			}
			refused := func() {
				t.Helper()
				for _, args := range [][]string{{"migrate"}, {"demo"}, {"serve"}, {"check"}, {"user", "list"}} {
					_, stderr, status := s.program.Another().Run(args...)
					if status != 1 || !strings.Contains(stderr, s.dir) || !strings.Contains(stderr, "has the last writes of a file that is gone") && (args[0] != "user" || place != "nothing") {
						t.Errorf("%v: %d %q", args, status, stderr)
					}
					servicetest.True(t, bytes.Equal(servicetest.Must(os.ReadFile(s.file+"-wal"))(t), log), "%v changes nothing of the log", args)
				}
			}
			refused()
			s.Kill()
			refused()
			servicetest.NoError(t, os.Rename(s.file+".away", s.file))
			s.Process = s.program.ServeReady()
			servicetest.True(t, s.kept(t)[name], "%s was acknowledged, and is there", name)
		})
	}
}

// An old log beside a restored file: serve and migrate refuse it in words and change nothing; with the log moved away, as they say, the
// restored file is served.
func TestSQLiteRestoredBesideOldLog(t *testing.T) {
	t.Parallel()
	s := serveSQLite(t)
	for _, end := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} { // so that the log holds a part of the pages only
		for range 100 {
			s.create()
		}
		s.Signal(end)
		s.Wait(20 * time.Second)
		if end == syscall.SIGINT {
			s.Process = s.program.ServeReady()
		}
	}
	restored := restoredFile(t)
	servicetest.NoError(t, os.WriteFile(s.file, restored, 0o600))
	for _, args := range [][]string{{"serve"}, {"migrate"}, {"serve"}} {
		stdout, stderr, status := s.program.Run(args...)
		last := stderr[strings.LastIndex(strings.TrimSuffix(stderr, "\n"), "\n")+1:]
		if status != 1 || stdout != "" || !strings.Contains(last, "move "+s.file+"-wal and "+s.file+"-shm away and start again") {
			t.Errorf("%v: %d %q %q", args, status, stdout, stderr)
		}
		servicetest.True(t, bytes.Equal(servicetest.Must(os.ReadFile(s.file))(t), restored), "%v changes nothing of the restored file", args)
	}
	servicetest.NoError(t, os.Rename(s.file+"-wal", s.file+"-wal.old"))
	os.Rename(s.file+"-shm", s.file+"-shm.old") // SQLite may have removed it
	s.Process = s.program.ServeReady()
	s.cookies = s.program.Issue("alice")
	kept := s.kept(t)
	servicetest.True(t, len(kept) == 200 && kept["restored 200"], "the restored events are there: %v", kept)
}

// restoredFile is the content of a database of 200 events.
func restoredFile(t *testing.T) []byte {
	t.Helper()
	db := servicetest.SQLite(t)
	db.Exec(`INSERT INTO events (id, world_id, name, description, scheduled_at, created_at)
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
		SELECT printf('00000000-0000-7000-8000-%012d', i), 'plaza', 'restored ' || i, hex(zeroblob(1000)),
			'2030-01-01 00:00:00+00:00', '2030-01-01 00:00:00+00:00' FROM n`)
	db.DB.Close() // folds the log into the file
	return servicetest.Must(os.ReadFile(strings.TrimPrefix(db.URL, "sqlite:")))(t)
}

// A file that is damaged makes the instance unready once that is met, until a restart with a whole one: a write elsewhere in the
// file does not pass for that.
func TestSQLiteFileIsDamaged(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t, "LOG_FORMAT=json")
	file := filepath.Join(p.Dir, "worldevents.db")
	content := restoredFile(t)
	servicetest.NoError(t, os.WriteFile(file, content, 0o600))
	cookies := p.Issue("alice")
	s := p.ServeReady()
	create := func() int {
		status, _ := s.Do("POST", "/api/event/elsewhere", servicetest.EventBody, cookies)
		return status
	}
	servicetest.Is(t, create(), 200, "status of a write") // so that the pages of what follows are read
	if content, _ = os.ReadFile(file); bytes.Count(content, []byte("restored")) < 200 {
		t.Fatal("the file has not been written to")
	}
	overwrite(t, file, bytes.Repeat([]byte{0xA5}, len(content)/2), int64(len(content)/2))
	servicetest.Contains(t, s.Is(503, "GET", servicetest.Plaza, "", cookies), `"code":"overloaded"`)
	refused := func() {
		t.Helper()
		for begin := time.Now(); time.Since(begin) < 2*time.Second && !t.Failed(); {
			servicetest.Is(t, s.Admin("/readyz"), 503, "/readyz after %v", time.Since(begin))
			servicetest.Is(t, create(), 503, "status of a write after %v", time.Since(begin))
		}
	}
	refused()
	s.Says(takesNoWrites, 1)
	overwrite(t, file, content[len(content)/2:], int64(len(content)/2))
	refused()
	s.Stop()
	s = p.ServeReady()
	s.Is(200, "GET", servicetest.Plaza, "", cookies)
	servicetest.Is(t, create(), 200, "status of a write")
}

// overwrite writes a part of a file, which stays the same file.
func overwrite(t *testing.T, file string, content []byte, at int64) {
	t.Helper()
	f := servicetest.Must(os.OpenFile(file, os.O_RDWR, 0))(t)
	defer f.Close()
	servicetest.Must(f.WriteAt(content, at))(t)
}

// A damaged page of an index, which no start comes to by itself, keeps an instance from being ready, and says so.
func TestSQLiteIndexIsDamaged(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t, "LOG_FORMAT=json")
	file := filepath.Join(p.Dir, "worldevents.db")
	servicetest.NoError(t, os.WriteFile(file, restoredFile(t), 0o600))
	db := servicetest.OpenSQLite(t, file)
	for _, index := range []string{"events_list", "rsvps_list", "sessions_user", "users_folded"} {
		var page, size int64
		db.Read("SELECT rootpage, (SELECT page_size FROM pragma_page_size) FROM sqlite_schema WHERE name = ?", []any{index}, &page, &size)
		db.DB.Close()
		whole := servicetest.Must(os.ReadFile(file))(t)
		overwrite(t, file, bytes.Repeat([]byte{0xA5}, int(size)), (page-1)*size)
		for _, command := range []string{"serve", "migrate"} {
			if _, stderr, status := p.Run(command); status != 1 || !strings.Contains(stderr, "worldevents.db: the file is damaged") || !strings.Contains(stderr, "restore a backup") {
				t.Errorf("%s: %s: %d %s", index, command, status, stderr)
			}
		}
		servicetest.NoError(t, os.WriteFile(file, whole, 0o600))
		db = servicetest.OpenSQLite(t, file)
	}
	db.DB.Close()
	p.ServeReady()
	servicetest.Is(t, folderOf(t, p.Dir), []string{"worldevents.db", "worldevents.db-shm", "worldevents.db-wal"}, "files")
}

func folderOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	for _, file := range servicetest.Must(os.ReadDir(dir))(t) {
		names = append(names, file.Name())
	}
	return names
}

// The file and its log are moved away, and back. The write that was committed meanwhile is there then, so its client was not told
// that nothing has happened, as those were whose writes are not.
func TestSQLiteFileComesBack(t *testing.T) {
	t.Parallel()
	s := serveSQLite(t)
	s.creates(t)
	move := func(from, to string) {
		for _, file := range []string{"", "-wal", "-shm"} {
			servicetest.NoError(t, os.Rename(from+file, to+file))
		}
	}
	move(s.file, s.file+".away")
	committed := s.isRefused(t, 500, `"detail":"create event: database unavailable"`)
	refused := s.isRefused(t, 503, `"code":"overloaded"`)
	move(s.file+".away", s.file)
	s.Readiness(200, servicetest.Soon)
	kept := s.kept(t)
	servicetest.True(t, kept[committed] && !kept[refused], "what was committed is there, and what was refused is not: %v", kept)
}
