package models

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"gorm.io/gorm"
)

// errNoSchema is returned by CheckSchema for a database that Migrate has never seen.
var errNoSchema = errors.New("the database has no tables yet: run worldevents migrate")

// CheckSchema returns an error, in words for the operator, unless the schema is as new as this program needs it. It changes
// nothing, and makes no SQLite file.
func (s *Store) CheckSchema(ctx context.Context) error {
	if s.file != "" {
		if _, err := os.Stat(s.file); errors.Is(err, fs.ErrNotExist) {
			return errNoSchema
		}
	}
	needed, err := s.neededSchema()
	if err != nil {
		return err
	}
	var version int64
	err = s.read(ctx, func(tx *gorm.DB) error {
		if err := s.refuseOldSchema(tx); err != nil {
			return err
		}
		version, err = s.schemaVersion(tx)
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("look at the schema: %w", err)
	case version == 0:
		return errNoSchema
	case version < needed:
		return fmt.Errorf("the schema of the database is version %d, this program needs %d: run worldevents migrate", version, needed)
	}
	return nil
}

// schemaVersion is the last migration that the database has had, 0 for none.
func (s *Store) schemaVersion(tx *gorm.DB) (int64, error) {
	query := "SELECT to_regclass('goose_db_version') IS NOT NULL"
	if s.dialect.isFile {
		query = "SELECT count(*) > 0 FROM sqlite_master WHERE name = 'goose_db_version'"
	}
	var exists bool
	if err := scan(tx.Raw(query), &exists); err != nil || !exists {
		return 0, err
	}
	var version sql.NullInt64
	err := scan(tx.Raw("SELECT max(version_id) FROM goose_db_version WHERE is_applied"), &version)
	return version.Int64, err
}
