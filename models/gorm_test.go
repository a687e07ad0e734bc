package models_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// The rotation of a refresh token as GORM's documentation would have it. No statement of the service is written so, but
// somebody's next one may be: RETURNING must work on both databases.
func TestTextbookRefresh(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice").Session
		handle, first := models.Hash(sha256.Sum256([]byte(alice.RefreshToken[:32]))), models.Hash(sha256.Sum256([]byte(alice.RefreshToken)))
		refresh := func(old, next models.Hash) (row models.Session, updated int64) {
			t.Helper()
			err := s.Store.Write(t.Context(), func(tx *gorm.DB) error {
				res := tx.Model(&row).Clauses(clause.Returning{}).Where("handle_hash = ? AND token_hash = ?", handle, old).
					Updates(map[string]any{"token_hash": next, "refreshed_at": time.Now().UTC()})
				updated = res.RowsAffected
				return res.Error
			})
			if err != nil {
				t.Fatal(err)
			}
			return row, updated
		}
		second := models.Hash{1}
		row, updated := refresh(first, second)
		if updated != 1 || row.UserID.String() != alice.UserID || row.HandleHash != handle || row.TokenHash == nil || *row.TokenHash != second {
			t.Errorf("%d rows: %+v, want the session of %s", updated, row, alice.UserID)
		}
		if row, updated := refresh(first, models.Hash{2}); updated != 0 || !row.ID.IsZero() {
			t.Errorf("a spent token updates %d rows: %+v", updated, row)
		}
	})
}

// columns selects the columns of a table: name, type as GORM spells it, whether NULL is refused, whether a key has it.
var columns = map[string]string{
	"sqlite": `SELECT name, lower(type), "notnull" = 1, pk > 0 FROM pragma_table_info(?)`,
	"postgres": `
		SELECT attname, CASE typname WHEN 'int8' THEN 'bigint' WHEN 'int4' THEN 'integer' ELSE typname END, attnotnull,
			EXISTS (SELECT 1 FROM pg_index WHERE indrelid = attrelid AND indisprimary AND attnum = ANY (indkey))
		FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
		WHERE attrelid = CAST(? AS regclass) AND attnum > 0 AND NOT attisdropped`,
}

// The models describe all columns of the migrated tables, as the database has them.
func TestModelsDescribeTheirTables(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		for _, model := range []any{&models.User{}, &models.Session{}, &models.Event{}, &models.RSVP{}} {
			err := s.Store.Write(t.Context(), func(tx *gorm.DB) error {
				table, described, err := describe(tx, model)
				if err != nil {
					return err
				}
				if s.Database.Dialect == "sqlite" {
					delete(described, "digest")
				}
				there, err := columnsOf(tx, columns[s.Database.Dialect], table)
				if err == nil && !maps.Equal(described, there) {
					err = fmt.Errorf("%s\nthe model has    %v\nthe database has %v", table, described, there)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
}

// generated takes away how GORM would have a database assign numbers.
var generated = strings.NewReplacer(" PRIMARY KEY AUTOINCREMENT", "", "bigserial", "bigint", "serial", "integer")

// describe returns a model's table, and its columns as GORM would make them.
func describe(tx *gorm.DB, model any) (table string, described map[string]string, err error) {
	statement := &gorm.Statement{DB: tx}
	if err := statement.Parse(model); err != nil {
		return "", nil, err
	}
	described = make(map[string]string)
	for _, name := range statement.Schema.DBNames {
		field := statement.Schema.LookUpField(name)
		described[name] = generated.Replace(tx.Migrator().FullDataTypeOf(field).SQL)
		if field.PrimaryKey {
			described[name] += " PRIMARY KEY"
		}
	}
	return statement.Table, described, nil
}

// columnsOf returns the columns that the database has.
func columnsOf(tx *gorm.DB, query, table string) (map[string]string, error) {
	rows, err := tx.Raw(query, table).Rows()
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	there := make(map[string]string)
	for rows.Next() {
		var name, kind string
		var notNull, key bool
		if err := rows.Scan(&name, &kind, &notNull, &key); err != nil {
			return nil, err
		}
		if notNull {
			kind += " NOT NULL"
		}
		if key {
			kind += " PRIMARY KEY"
		}
		there[name] = kind
	}
	return there, rows.Err()
}
