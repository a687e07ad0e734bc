package copydb

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"worldevents/models/internal/postgres"
	"worldevents/models/internal/schema"
	"worldevents/models/internal/sqlite"
)

// side is one side of a copy.
type side struct {
	url string
	// name is the URL without secrets.
	name   string
	schema schema.Database
	// file is the SQLite file; "" for PostgreSQL.
	file string
	// postgres says how to connect; nil for SQLite.
	postgres *pgx.ConnConfig
}

// parse reads a URL. It refuses other texts, because pgx would read them as keywords and values, and take what
// is missing from the environment.
func (o Options) parse(text string) (side, error) {
	if path, ok := strings.CutPrefix(text, "sqlite:"); ok {
		file := sqlite.FileOf(path)
		if file == "" || strings.HasSuffix(file, "/") || strings.IndexByte(file, 0) >= 0 {
			return side{}, errors.New("sqlite: needs the name of a file of this machine")
		}
		return side{url: text, name: text, schema: schema.SQLite, file: file}, nil
	}
	if !postgres.IsURL(text) {
		return side{}, errors.New("must be sqlite:FILE or postgres://…")
	}
	config, err := postgres.Parse(text, o.Timeout)
	if err != nil {
		return side{}, err
	}
	return side{url: text, name: postgres.NameOf(config), schema: schema.Postgres, postgres: config}, nil
}
