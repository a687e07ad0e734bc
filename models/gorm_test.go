package models_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/migrator"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

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

// spelled writes GORM's types as the database does. No serial is one: GORM would have PostgreSQL assign the numbers.
var spelled = map[string]*strings.Replacer{
	"sqlite":   strings.NewReplacer("string", "text", "time", "datetime", "bytes", "blob", "int", "integer"),
	"postgres": strings.NewReplacer("bigserial", "bigint", "serial", "integer"),
}

// describe returns a model's table, and its columns as GORM would make them.
func describe(tx *gorm.DB, model any) (table string, described map[string]string, err error) {
	statement := &gorm.Statement{DB: tx}
	if err := statement.Parse(model); err != nil {
		return "", nil, err
	}
	types := migrator.Migrator{Config: migrator.Config{DB: tx, Dialector: tx.Dialector}}
	described = make(map[string]string)
	for _, name := range statement.Schema.DBNames {
		field := statement.Schema.LookUpField(name)
		described[name] = spelled[tx.Name()].Replace(types.FullDataTypeOf(field).SQL)
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

// Sessions of GORM are used again: none has anything of the call before, not even after an error.
func TestSessionsKeepNothing(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		s.SignIn("alice")
		type key struct{}
		for i := range 50 {
			ctx := context.WithValue(t.Context(), key{}, i)
			err := s.Store.Write(ctx, func(tx *gorm.DB) error {
				if tx.Error != nil || tx.Statement.Context.Value(key{}) != i {
					t.Errorf("call %d has the error %v and the context of %v", i, tx.Error, tx.Statement.Context.Value(key{}))
				}
				var users int64
				if err := tx.Model(&models.User{}).Count(&users).Error; err != nil || users != 1 {
					t.Errorf("call %d: %d users, %v", i, users, err)
				}
				switch i % 3 {
				case 0:
					return tx.Where("username = 'nobody'").Take(&models.User{}).Error
				case 1:
					return tx.AddError(errors.New("added"))
				}
				tx.Where("username = 'nobody'").Limit(1).Select("id") // begun, and never run
				return nil
			})
			if (err != nil) != (i%3 != 2) {
				t.Errorf("call %d: %v", i, err)
			}
		}
	})
}

// Of any callers those are active whose user is not blocked and whose session is theirs and not revoked.
func TestSignedOut(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		caller := func(name string) models.Caller {
			c := s.SignIn(name)
			user := servicetest.Must(models.ParseID(c.Session.UserID))(t)
			session := servicetest.Must(models.ParseID(c.Session.SessionID))(t)
			return models.Caller{UserID: user, SessionID: session}
		}
		alice, bob, carol, dan := caller("alice"), caller("bob"), caller("carol"), caller("dan")
		servicetest.Must(s.Store.RevokeSession(t.Context(), bob))(t)
		s.Database.Exec("UPDATE users SET blocked_at = ? WHERE username = 'carol'", time.Now().UTC())
		user := func(c models.Caller) models.Caller { return models.Caller{UserID: c.UserID} }
		want := map[models.Caller]bool{
			alice: true, user(alice): true, // without a session only the user counts
			bob: false, user(bob): true,
			user(carol): false,
			dan:         true, user(dan): true,
			{UserID: alice.UserID, SessionID: dan.SessionID}: false, // a session of somebody else
			{UserID: models.ID{1}, SessionID: models.ID{2}}:  false,
			{UserID: models.ID{1}}:                           false,
			{UserID: alice.UserID, SessionID: models.ID{2}}:  false,
		}
		all := append(slices.Collect(maps.Keys(want)), alice, bob) // twice
		got := servicetest.Must(s.Store.SignedOut(t.Context(), all))(t)
		for c := range want {
			if got[c] == want[c] {
				t.Errorf("%v: signed out %v, active %v", c, got[c], want[c])
			}
		}
		if got, err := s.Store.SignedOut(t.Context(), nil); err != nil || len(got) > 0 {
			t.Errorf("of nobody %v are signed out, %v", got, err)
		}
	})
}
