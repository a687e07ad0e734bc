package models_test

import (
	"crypto/sha256"
	"maps"
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
		db := s.Store.GORM().WithContext(t.Context())
		refresh := func(old, next models.Hash) (row models.Session, updated int64) {
			res := db.Model(&row).Clauses(clause.Returning{}).Where("handle_hash = ? AND token_hash = ?", handle, old).
				Updates(map[string]any{"token_hash": next, "refreshed_at": time.Now().UTC()})
			if res.Error != nil {
				t.Fatal(res.Error)
			}
			return row, res.RowsAffected
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
		SELECT attname, CASE WHEN atttypid = 'int8'::regtype THEN 'bigint' ELSE typname END, attnotnull,
			EXISTS (SELECT 1 FROM pg_index WHERE indrelid = attrelid AND indisprimary AND attnum = ANY (indkey))
		FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
		WHERE attrelid = CAST(? AS regclass) AND attnum > 0 AND NOT attisdropped`,
}

// The models describe all columns of the migrated tables, as the database has them.
func TestModelsDescribeTheirTables(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		db := s.Store.GORM()
		for _, model := range []any{&models.User{}, &models.Session{}, &models.Event{}, &models.RSVP{}} {
			statement := &gorm.Statement{DB: db}
			if err := statement.Parse(model); err != nil {
				t.Fatal(err)
			}
			described := make(map[string]string)
			for _, name := range statement.Schema.DBNames {
				field := statement.Schema.LookUpField(name)
				described[name] = db.Migrator().FullDataTypeOf(field).SQL
				if field.PrimaryKey {
					described[name] += " PRIMARY KEY"
				}
			}
			if s.Database.Dialect == "sqlite" {
				delete(described, "digest")
			}
			rows, err := db.Raw(columns[s.Database.Dialect], statement.Table).Rows()
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			there := make(map[string]string)
			for rows.Next() {
				var name, kind string
				var notNull, key bool
				if err := rows.Scan(&name, &kind, &notNull, &key); err != nil {
					t.Fatal(err)
				}
				if notNull {
					kind += " NOT NULL"
				}
				if key {
					kind += " PRIMARY KEY"
				}
				there[name] = kind
			}
			if !maps.Equal(described, there) {
				t.Errorf("%s\nthe model has    %v\nthe database has %v", statement.Table, described, there)
			}
		}
	})
}
