package models

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
	"gorm.io/gorm"
)

//go:embed migrations
var migrations embed.FS

// Migrate brings the schema up to date. It is safe when several instances start at once on one database. It fails
// with ErrUnavailable, ErrTimeout or ErrBusy when it is worth another try.
func (s *Store) Migrate(ctx context.Context) error {
	// A pool of its own: the lock and goose need a connection each, whatever the size of the store's pool.
	p, err := newPool(s.dialect, 3)
	if err != nil {
		return err
	}
	defer p.sql.Close()
	tx := p.gorm.WithContext(ctx)
	if s.dialect.check != nil {
		err := classify(s.dialect.check(tx))
		if isRefusal(err) {
			err = errors.New(err.Error()) // a wrong password is nothing to wait for
		}
		if err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
	}
	files, err := fs.Sub(migrations, "migrations/"+s.dialect.name)
	if err != nil {
		return err
	}
	err = s.dialect.withMigrationLock(tx, func() error {
		if err := s.refuseOldSchema(tx); err != nil {
			return err
		}
		provider, err := goose.NewProvider(s.dialect.goose, p.sql, files)
		if err != nil {
			return err
		}
		_, err = provider.Up(ctx)
		return err
	})
	err = classify(err)
	if s.dialect.isFile && errors.Is(err, ErrUnavailable) {
		err = errors.New(err.Error()) // a file that cannot be opened is not one to wait for
	}
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// errOldSchema is returned by Migrate for a database that was made before usernames had skeletons.
var errOldSchema = errors.New("the database was made by a version before the first release, which this one cannot read: delete it (the file, or its tables) and start again")

// refuseOldSchema knows such a database by a column that it lacks.
func (s *Store) refuseOldSchema(tx *gorm.DB) error {
	var old bool
	err := scan(tx.Raw(s.dialect.oldSchemaQuery), &old)
	if err == nil && old {
		return errOldSchema
	}
	return err
}
