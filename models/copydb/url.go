package copydb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"worldevents/models"
	"worldevents/models/internal/postgres"
	"worldevents/models/internal/schema"
	"worldevents/models/internal/sqlite"
)

// side is one side of a copy.
type side struct {
	url string
	// name is the URL without secrets.
	name string
	// file is the SQLite file; "" for PostgreSQL.
	file string
}

// parseSide reads a URL. It refuses other texts, because pgx would read them as keywords and values, and take
// what is missing from the environment.
func parseSide(text string) (side, error) {
	if path, ok := strings.CutPrefix(text, "sqlite:"); ok {
		file := sqlite.FileOf(path)
		if file == "" || strings.HasSuffix(file, "/") || strings.IndexByte(file, 0) >= 0 {
			return side{}, errors.New("sqlite: needs the name of a file of this machine")
		}
		return side{text, text, file}, nil
	}
	if !postgres.IsURL(text) {
		return side{}, errors.New("must be sqlite:FILE or postgres://…")
	}
	config, err := postgres.Parse(text, 0)
	if err != nil {
		return side{}, err
	}
	return side{text, postgres.NameOf(config), ""}, nil
}

func (u side) openSource(ctx context.Context, timeout time.Duration) (copySource, error) {
	if u.file != "" {
		return openSQLiteSource(ctx, u.file)
	}
	return openPostgresSource(ctx, u.url, timeout)
}

func (u side) openTarget(ctx context.Context, source copySource, timeout time.Duration) (copyTarget, error) {
	if u.file != "" {
		file, _ := source.(*sqliteSource)
		return openSQLiteTarget(ctx, u.file, file)
	}
	postgres, _ := source.(*postgresSource)
	return openPostgresTarget(ctx, u.url, timeout, postgres)
}

// makeSchema makes the tables of a target.
func makeSchema(ctx context.Context, o models.Options) error {
	store, err := models.Open(o)
	if err != nil {
		return err
	}
	defer store.Close()
	return store.Migrate(ctx)
}

// checkSourceSchema refuses a database whose rows this program cannot copy.
func checkSourceSchema(ctx context.Context, d schema.Database, value schema.Value) error {
	version, err := d.Version(ctx, value)
	switch newest := schema.Newest(); {
	case err != nil:
		return err
	case version == 0:
		return errors.New("has no schema of this program: there is nothing to copy")
	case version < newest:
		return fmt.Errorf("has the schema %d, and this program is for %d: run worldevents migrate with this DATABASE_URL first", version, newest)
	case version > newest:
		return errNewerSchema(version)
	}
	return nil
}

func errNewerSchema(version int64) error {
	return fmt.Errorf("has the schema %d, and this program knows only those up to %d: use a newer version of it", version, schema.Newest())
}
