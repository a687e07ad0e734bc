package models

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"

	"gorm.io/gorm"

	"worldevents/models/internal/schema"
)

// storedSchema is a Store's knowledge of the schema of its database.
type storedSchema struct {
	database schema.Database
	version  atomic.Int64 // 0 until it is known
	made     atomic.Bool  // Migrate made it
	fixed    atomic.Pointer[[]string]
}

// ErrSchemaOlder is returned by CheckSchema for a database that must be migrated first.
var ErrSchemaOlder = errors.New("the schema of the database is older than this version of worldevents: run worldevents migrate")

var errNoSchema = errors.New("the database has no tables yet: run worldevents migrate")

var errNoFile = errors.New("there is no such file: run this in the service's folder, or run worldevents migrate to make it")

// Name is the name of the database, without secrets.
func (s *Store) Name() string {
	if s.file != nil {
		return s.file.Name()
	}
	return s.server.Name()
}

// named puts the name of the database in front of an error.
func (s *Store) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", s.Name(), err)
}

// CheckSchema returns an error unless this program can work with the database as it is: ErrSchemaOlder, or another one in words for the
// operator. It changes nothing, and makes no SQLite file. What only keeps the service from serving is no reason to refuse a command.
func (s *Store) CheckSchema(ctx context.Context) error {
	if s.file != nil {
		if _, err := os.Stat(s.file.Path); errors.Is(err, fs.ErrNotExist) {
			return s.named(errNoFile)
		}
	}
	var j schema.Judgement
	judge := func(tx *gorm.DB) (err error) {
		j, err = s.judge(tx)
		return err
	}
	read := s.patiently
	if s.file != nil {
		read = s.read
	}
	err := read(ctx, judge)
	switch {
	case err != nil:
	case len(j.Unusable) > 0:
		err = inOneLine(j.Unusable)
	case j.Version == 0:
		err = errNoSchema
	case j.Version < schema.Newest():
		err = ErrSchemaOlder
	default:
		err = inOneLine(j.Fixable)
	}
	return s.named(err)
}

func (s *Store) judge(tx *gorm.DB) (schema.Judgement, error) {
	return s.schema.database.Judge(tx.Statement.Context, func(_ context.Context, into any, query string, args ...any) error {
		return scan(tx.Raw(query, args...), into)
	})
}

// inOneLine is an error of texts, nil without any.
func inOneLine(texts []string) error {
	if len(texts) == 0 {
		return nil
	}
	return errors.New(strings.Join(texts, "; "))
}

// NewerSchema returns the number of the database's schema if that is newer than this program's and usable all the same. Otherwise, and
// before Migrate has looked, it is 0.
func (s *Store) NewerSchema() int64 {
	if version := s.schema.version.Load(); version > schema.Newest() {
		return version
	}
	return 0
}

// Schema returns the number of the database's last migration, and 0 before Migrate has looked.
func (s *Store) Schema() int64 { return s.schema.version.Load() }
