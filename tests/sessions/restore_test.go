package sessions

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// A backup knows refresh tokens as current that have been spent since. After it is restored `session revoke --all` ends
// whoever holds one, as docs/operate/backup.md says.
func TestRevokeAllAfterRestore(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		p := servicetest.NewProgram(t)
		file, backup := filepath.Join(p.Dir, "worldevents.db"), filepath.Join(p.Dir, "backup.db")
		copyFile := func(from, to string) {
			t.Helper()
			content, err := os.ReadFile(from)
			if err == nil {
				err = os.WriteFile(to, content, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		revokeAfterRestore(t, p, func() { copyFile(file, backup) }, func() { copyFile(backup, file) })
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		db := servicetest.EmptyPostgres(t)
		backup := new(servicetest.Snapshot)
		revokeAfterRestore(t, servicetest.NewProgram(t, "DATABASE_URL="+db.URL), func() { *backup = db.Snapshot() }, func() { db.Restore(*backup) })
	})
}

// revokeAfterRestore calls back and restore while nothing serves.
func revokeAfterRestore(t *testing.T, p *servicetest.Program, backup, restore func()) {
	t.Helper()
	p.MustRun("migrate")
	stolen := strings.TrimSpace(p.MustRun("session", "issue", "alice"))
	backup()
	use := func(want int) {
		t.Helper()
		s := p.ServeReady()
		if status, body := s.Do("GET", servicetest.RefreshPath, "", stolen); status != want {
			t.Errorf("%d %s, want %d", status, body, want)
		}
		if status, body := s.Do("GET", servicetest.Plaza, "", stolen); want == 400 && status != 401 {
			t.Errorf("the JWT: %d %s", status, body)
		}
		s.Signal(syscall.SIGINT)
		if status := s.Wait(20 * time.Second); status != 0 {
			t.Fatalf("exit status %d", status)
		}
	}
	use(200) // its owner spends it
	restore()
	use(200) // whoever has a copy spends it again: this is what the command is for
	restore()
	p.MustRun("session", "revoke", "--all")
	use(400)
}
