package sessions

import (
	"os"
	"path/filepath"
	"testing"

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
			servicetest.NoError(t, os.WriteFile(to, servicetest.Must(os.ReadFile(from))(t), 0o600))
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
	stolen := p.Issue("alice")
	backup()
	use := func(want int) {
		t.Helper()
		s := p.ServeReady()
		s.Is(want, "GET", servicetest.RefreshPath, "", stolen)
		if want == 400 {
			s.Is(401, "GET", servicetest.Plaza, "", stolen) // with the JWT
		}
		s.Stop()
	}
	use(200) // its owner spends it
	restore()
	use(200) // whoever has a copy spends it again: this is what the command is for
	restore()
	p.MustRun("session", "revoke", "--all")
	use(400)
}
