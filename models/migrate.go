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
	"slices"
	"strings"
	"time"

	"github.com/pressly/goose/v3"

	"worldevents/models/internal/dberr"
	"worldevents/models/internal/schema"
)

// migrationTries bounds the attempts of Migrate at a migration whose locks others have.
const migrationTries = 10

// Migrate brings the schema up to date. Several instances may call it at once. It leaves a newer schema alone, and returns an error unless
// this program can work with it. It returns ErrUnavailable, ErrTimeout or ErrBusy if another call may succeed.
func (s *Store) Migrate(ctx context.Context) error { return s.migrateOr(ctx, nil) }

// MigrateExisting is Migrate that makes no database. Without a SQLite file or a schema it returns an error in words for the operator.
func (s *Store) MigrateExisting(ctx context.Context) error {
	if s.file != nil {
		if _, err := os.Stat(s.file.Path); errors.Is(err, fs.ErrNotExist) {
			return s.named(errNoDatabase)
		}
	}
	return s.migrateOr(ctx, errNoDatabase)
}

var errNoDatabase = errors.New("there is no database here, and REQUIRE_DATABASE=true makes none. If there was one, look at DATABASE_URL, put its files back or restore a backup: " +
	"worldevents migrate makes an empty one")

// Made reports whether Migrate found no schema and made one.
func (s *Store) Made() bool { return s.schema.made.Load() }

// migrateOr is Migrate that returns refusal, unless nil, where there is no schema.
func (s *Store) migrateOr(ctx context.Context, refusal error) error {
	if s.file != nil {
		if _, err := os.Stat(filepath.Dir(s.Name())); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("migrate: %w", s.named(errors.New("its folder does not exist")))
		}
		if err := s.file.CheckAtStart(ctx); err != nil {
			return fmt.Errorf("migrate: %w", s.named(err))
		}
	}
	// The lock and goose need a connection each, however small the store's pool is.
	p, err := s.database.newPool(3)
	if err != nil {
		return err
	}
	defer p.sql.Close()
	for n := 1; err == nil; n++ {
		if err = s.migrate(ctx, p, refusal); n == migrationTries || !isLockTimeout(err) {
			break
		}
		// Whoever queued behind the migration's lock goes first.
		err = sleep(ctx, time.Second)
	}
	if isLockTimeout(err) {
		err = fmt.Errorf("%w: another transaction keeps a table that must be changed: %w", ErrBusy, err)
	}
	err = dberr.Classify(err)
	if s.file != nil && errors.Is(err, ErrUnavailable) || dberr.IsRefusal(err) {
		err = errors.New(err.Error()) // without its class: waiting does not open a file or correct a password
	}
	if err != nil {
		return fmt.Errorf("migrate: %w", s.named(err))
	}
	return nil
}

// migrate is one attempt of Migrate.
func (s *Store) migrate(ctx context.Context, p pool, refusal error) error {
	tx := p.gorm.WithContext(ctx)
	return s.database.migrate(tx, func() error {
		j, err := s.judge(tx)
		version := j.Version
		switch {
		case err != nil:
			return err
		case len(j.Unusable) > 0:
			return inOneLine(j.Unusable)
		case version == 0 && refusal != nil:
			return refusal
		case len(j.Refused) > 0:
			return inOneLine(j.Refused)
		}
		if version < schema.Newest() {
			provider, err := goose.NewProvider(s.schema.database.Goose, p.sql, migrationFiles{s.schema.database.Migrations(), s.schema.database})
			if err != nil {
				return err
			}
			if _, err = provider.Up(ctx); err != nil {
				return err
			}
			s.schema.made.Store(version == 0)
			if j, err = s.judge(tx); err != nil {
				return err
			}
		}
		if len(j.Fixes) > 0 {
			if err := s.fix(ctx, p, j.Fixes); err != nil {
				return fmt.Errorf("%w: %w", inOneLine(j.Fixable), err)
			}
			fixed := j.Fixable
			s.schema.fixed.Store(&fixed)
			if j, err = s.judge(tx); err != nil {
				return err
			}
		}
		s.schema.version.Store(max(version, schema.Newest()))
		return inOneLine(slices.Concat(j.Unusable, j.Refused, j.Fixable))
	})
}

// fix runs the statements that fix the findings of schema.Judge, in one transaction.
func (s *Store) fix(ctx context.Context, p pool, fixes []string) error {
	d := s.schema.database
	tx, err := p.sql.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, d.Settings+d.Fixing+strings.Join(slices.Compact(fixes), ";\n")); err != nil {
		return err
	}
	return tx.Commit()
}

// Fixed returns what Migrate found and fixed, in words for the operator.
func (s *Store) Fixed() []string {
	if fixed := s.schema.fixed.Load(); fixed != nil {
		return *fixed
	}
	return nil
}

// isLockTimeout reports whether lock_timeout ended a statement: after 200 ms in a migration, since all later statements wait with it.
func isLockTimeout(err error) bool { return dberr.IsCode(err, "55P03") }

// migrationFiles puts settings in front of each migration, and includes the triggers: goose has no other place for them in its transaction.
type migrationFiles struct {
	fs.FS
	database schema.Database
}

func (m migrationFiles) Open(name string) (fs.File, error) {
	file, err := m.FS.Open(name)
	if err != nil || path.Ext(name) != ".sql" {
		return file, err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	const up, include = "-- +goose Up\n", "-- +include triggers\n"
	return migrationFile{file, strings.NewReader(strings.NewReplacer(up, up+m.database.Settings, include, schema.Triggers(m.database.Name)).Replace(string(text)))}, nil
}

// migrationFile is a file with another text.
type migrationFile struct {
	fs.File
	text *strings.Reader
}

func (f migrationFile) Read(p []byte) (int, error) { return f.text.Read(p) }
