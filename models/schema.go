package models

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"

	"gorm.io/gorm"

	"worldevents/models/internal/dberr"
	"worldevents/models/internal/schema"
)

// storedSchema is what a Store knows of the schema of its database.
type storedSchema struct {
	database schema.Database
	version  atomic.Int64 // 0 until it is known
	made     atomic.Bool  // Migrate made it
}

// ErrSchemaOlder is returned by CheckSchema for a database that must be migrated first.
var ErrSchemaOlder = errors.New("the schema of the database is older than this version of worldevents: run worldevents migrate")

// errNoSchema is returned by CheckSchema for a database that Migrate has never seen.
var errNoSchema = errors.New("the database has no tables yet: run worldevents migrate")

// errNoFile is returned by CheckSchema if there is no SQLite file, which Migrate would make.
var errNoFile = errors.New("there is no such file: settings and file are found in the service's folder. Only where it is to be made run worldevents migrate")

// Name says which database it is. It contains no secret.
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

// errSchemaNewer is returned for a database that this program cannot work with.
var errSchemaNewer = errors.New("the schema of the database is newer, and needs a newer version of worldevents")

// errDamaged is returned for a database that lacks what its schema has.
var errDamaged = errors.New("the database is damaged, or was made by a version before the first release: restore a backup, or delete it")

// CheckSchema returns an error unless this program can work with the database as it is: ErrSchemaOlder, or
// another one in words for the operator. It changes nothing, and makes no SQLite file.
func (s *Store) CheckSchema(ctx context.Context) error {
	if s.file != nil {
		if _, err := os.Stat(s.file.Path); errors.Is(err, fs.ErrNotExist) {
			return s.named(errNoFile)
		}
	}
	return s.named(s.read(ctx, func(tx *gorm.DB) error {
		version, err := s.usableSchema(tx)
		switch {
		case err != nil:
			return err
		case version == 0:
			return errNoSchema
		case version < schema.Newest():
			return ErrSchemaOlder
		}
		return s.verifySchema(tx)
	}))
}

// NewerSchema returns the number of the database's schema if that is newer than this program's, and this
// program works with it all the same. Otherwise, and before Migrate has looked, it is 0.
func (s *Store) NewerSchema() int64 {
	if version := s.schema.version.Load(); version > schema.Newest() {
		return version
	}
	return 0
}

// Schema returns the number of the database's last migration, and 0 before Migrate has looked.
func (s *Store) Schema() int64 { return s.schema.version.Load() }

// usableSchema returns the number of the database's last migration, 0 for an empty database. It returns
// errOldSchema, errDamaged or errSchemaNewer unless this program can work with the schema once it is migrated.
func (s *Store) usableSchema(tx *gorm.DB) (version int64, err error) {
	if err := s.refuseOldSchema(tx); err != nil {
		return 0, err
	}
	version, err = s.schema.database.Version(tx.Statement.Context, func(_ context.Context, into any, query string, args ...any) error {
		return scan(tx.Raw(query, args...), into)
	})
	if err != nil || version == 0 {
		return 0, err
	}
	var compatible bool
	if err := scan(tx.Raw(fmt.Sprintf(s.schema.database.HasTableQuery, "compatibility")), &compatible); err != nil {
		return 0, err
	}
	if !compatible {
		return 0, fmt.Errorf("%w: no table compatibility", errDamaged)
	}
	// oldest is the oldest schema whose programs can still work with the database. A migration that takes
	// something away, or that demands more of those who write, raises it.
	var oldest int64
	if err := scan(tx.Raw("SELECT max(oldest) FROM compatibility"), &oldest); err != nil {
		return 0, err
	}
	if known := schema.Newest(); oldest > known {
		return 0, fmt.Errorf("%w: it has schema %d, which programs that know schema %d can use, and this one knows %d", errSchemaNewer, version, oldest, known)
	}
	return version, nil
}

// verifySchema returns errDamaged unless all tables and columns are there, and all triggers that mark changes.
// Without these triggers lists would go stale in silence.
func (s *Store) verifySchema(tx *gorm.DB) error {
	for table, columns := range schema.Columns {
		rows, err := tx.Raw("SELECT " + columns + " FROM " + table + " WHERE false").Rows()
		if err == nil {
			err = errors.Join(rows.Err(), rows.Close())
		}
		if err != nil && dberr.ClassOf(err) == nil && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrBusy) {
			return fmt.Errorf("%w: table %s: %v", errDamaged, table, err)
		}
		if err != nil {
			return err
		}
	}
	var triggers int
	if err := scan(tx.Raw(s.schema.database.TriggersQuery), &triggers); err != nil {
		return err
	}
	if triggers != s.schema.database.Triggers {
		return fmt.Errorf("%w: of %d triggers changes_… of events and rsvps, %d are there and always fire", errDamaged, s.schema.database.Triggers, triggers)
	}
	return nil
}
