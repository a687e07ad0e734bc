package models

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
	"gorm.io/gorm"

	"worldevents/models/internal/dberr"
)

// migrationTries is how often Migrate tries a migration that did not get its locks.
const migrationTries = 10

// Migrate brings the schema up to date. It is safe when several instances start at once on one database. A schema that
// is newer than those of this program stays as it is, and Migrate fails unless this program can work with it. It fails
// with ErrUnavailable, ErrTimeout or ErrBusy when it is worth another try.
func (s *Store) Migrate(ctx context.Context) error { return s.migrateOr(ctx, nil) }

// MigrateExisting is Migrate that makes no database: it fails, in words for the operator, where there is no SQLite file or
// no schema.
func (s *Store) MigrateExisting(ctx context.Context) error {
	if s.file != nil {
		if _, err := os.Stat(s.file.Path); errors.Is(err, fs.ErrNotExist) {
			return s.named(errNoDatabase)
		}
	}
	return s.migrateOr(ctx, errNoDatabase)
}

// errNoDatabase is returned by MigrateExisting.
var errNoDatabase = errors.New("there is no database here, and REQUIRE_DATABASE=true has none made. If there was one, look at DATABASE_URL, put its files back or restore a backup: " +
	"worldevents migrate makes an empty one")

// Made reports whether Migrate has made the schema, since there was none.
func (s *Store) Made() bool { return s.schema.made.Load() }

// migrateOr is Migrate that returns refusal, unless that is nil, where there is no schema.
func (s *Store) migrateOr(ctx context.Context, refusal error) error {
	if s.file != nil {
		if _, err := os.Stat(filepath.Dir(s.Name())); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("migrate: %w", s.named(errors.New("its folder is not there")))
		}
		if err := s.file.CheckAtStart(ctx); err != nil {
			return fmt.Errorf("migrate: %w", s.named(err))
		}
	}
	// A pool of its own: the lock and goose need a connection each, whatever the size of the store's pool.
	p, err := s.database.newPool(3)
	if err != nil {
		return err
	}
	defer p.sql.Close()
	for n := 1; err == nil; n++ {
		if err = s.migrate(ctx, p, refusal); n == migrationTries || !isLockTimeout(err) {
			break
		}
		select { // in which those who have queued behind the migration go on
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(time.Second):
			err = nil
		}
	}
	if isLockTimeout(err) {
		err = fmt.Errorf("%w: another transaction keeps a table that must be changed: %w", ErrBusy, err)
	}
	err = dberr.Classify(err)
	if s.file != nil && errors.Is(err, ErrUnavailable) || dberr.IsRefusal(err) {
		err = errors.New(err.Error()) // a file that cannot be opened, or a wrong password, is nothing to wait for
	}
	if err != nil {
		return fmt.Errorf("migrate: %w", s.named(err))
	}
	return nil
}

// migrate is one try.
func (s *Store) migrate(ctx context.Context, p pool, refusal error) error {
	tx := p.gorm.WithContext(ctx)
	return s.database.migrate(tx, func() error {
		if err := s.refuseOldSchema(tx); err != nil {
			return err
		}
		found, err := s.schemaOf(tx)
		if err != nil {
			return err
		}
		if err := found.check(); err != nil {
			return err
		}
		if found.version == 0 && refusal != nil {
			return refusal
		}
		if found.version < found.known {
			provider, err := goose.NewProvider(s.schema.database.Goose, p.sql, migrationFiles{s.schema.database.Migrations(), s.schema.database.Settings})
			if err != nil {
				return err
			}
			if _, err = provider.Up(ctx); err != nil {
				return err
			}
			s.schema.made.Store(found.version == 0)
		}
		if err := s.verifySchema(tx); err != nil {
			return err
		}
		s.schema.version.Store(max(found.version, found.known))
		return nil
	})
}

// isLockTimeout reports whether lock_timeout has ended a statement.
func isLockTimeout(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "55P03"
}

// migrationFiles are migrations with settings in front of each.
type migrationFiles struct {
	fs.FS
	settings string
}

// Open implements fs.FS.
func (m migrationFiles) Open(name string) (fs.File, error) {
	file, err := m.FS.Open(name)
	if err != nil || m.settings == "" || path.Ext(name) != ".sql" {
		return file, err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	const up = "-- +goose Up\n"
	return migrationFile{file, strings.NewReader(strings.Replace(string(text), up, up+m.settings, 1))}, nil
}

// migrationFile is a file with another text.
type migrationFile struct {
	fs.File
	text *strings.Reader
}

// Read implements fs.File.
func (f migrationFile) Read(p []byte) (int, error) { return f.text.Read(p) }

// errOldSchema is returned by Migrate for a database that was made before usernames had skeletons.
var errOldSchema = errors.New("the database was made by a version before the first release, which this one cannot read: delete it (the file, or its tables) and start again")

// refuseOldSchema knows such a database by a column that it lacks.
func (s *Store) refuseOldSchema(tx *gorm.DB) error {
	var old bool
	err := scan(tx.Raw(s.schema.database.OldQuery), &old)
	if err == nil && old {
		return errOldSchema
	}
	return err
}
