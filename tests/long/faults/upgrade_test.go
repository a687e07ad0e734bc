package faults

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// exampleMigration is what a release may add: what the version before goes on with.
const exampleMigration = `-- +goose Up
ALTER TABLE events ADD COLUMN example text;
CREATE TABLE examples (event_number bigint PRIMARY KEY REFERENCES events (number) ON DELETE CASCADE);

-- +goose Down
DROP TABLE examples;
ALTER TABLE events DROP COLUMN example;
`

// nextRelease builds the program with one migration more, and returns its path.
func nextRelease(t *testing.T) string {
	t.Helper()
	root, dir := servicetest.Root(t), t.TempDir()
	migration, overlay, path := filepath.Join(dir, "migration.sql"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "worldevents")
	text, _ := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(root, "models/internal/schema/migrations/postgres/99999_example.sql"): migration,
	}})
	for file, text := range map[string][]byte{migration: []byte(exampleMigration), overlay: text} {
		servicetest.NoError(t, os.WriteFile(file, text, 0o600))
	}
	build := exec.Command("go", "build", "-overlay", overlay, "-o", path, ".")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// Two instances under load are replaced one by one by those of a release with one migration more, while a long
// transaction, such as that of a backup, keeps the tables from being changed: no request fails, and the version before
// can work with the new schema.
func TestUpgradeUnderLoad(t *testing.T) {
	t.Parallel()
	next := nextRelease(t)
	server := servicetest.NewPostgresServer(t)
	f := newFleet(t, server)
	load := f.load(20)
	db := server.Database()
	tx := servicetest.Must(db.DB.BeginTx(context.Background(), nil))(t)
	defer tx.Rollback()
	servicetest.Must(tx.Exec("SELECT count(*) FROM events"))(t)
	f.processes[0].Stop()
	f.programs[0] = f.programs[0].At(next)
	f.processes[0] = f.programs[0].Serve()
	for begin := time.Now(); time.Since(begin) < 6*time.Second; time.Sleep(100 * time.Millisecond) {
		if status := f.processes[0].Admin("/readyz"); status != 503 {
			t.Fatalf("readiness %d before the migration could be done", status)
		}
	}
	load.goOn(100)
	servicetest.NoError(t, tx.Commit())
	f.waitUp()
	f.replace(1, f.programs[1].At(next))
	load.goOn(200)
	f.replace(0, servicetest.NewProgram(t, f.programs[0].Env...)) // back to the version before
	load.goOn(200)
	load.losesNothing()
	servicetest.Is(t, db.Count("information_schema.columns WHERE column_name = 'example'"), 1, "columns of the migration")
}
