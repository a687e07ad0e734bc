package models_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"gorm.io/gorm/schema"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// The list of tables and columns that a schema is held to is that of the migrations, and GORM's models have the same columns.
func TestSchemaTables(t *testing.T) {
	servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
		query := "SELECT m.name || '.' || c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%' AND m.name NOT IN ('goose_db_version', 'changes', 'incarnation')"
		if db.Dialect == "postgres" {
			query = "SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = 'public' AND table_name NOT IN ('goose_db_version', 'changes', 'incarnation') AND is_generated = 'NEVER'"
		}
		rows := servicetest.Must(db.DB.Query(query))(t)
		defer rows.Close()
		var got []string
		for rows.Next() {
			var name string
			servicetest.NoError(t, rows.Scan(&name))
			got = append(got, name)
		}
		slices.Sort(got)
		want := slices.DeleteFunc(models.SchemaColumns(), func(name string) bool { // the databases mark changes in different ways
			return strings.HasPrefix(name, "changes.") || strings.HasPrefix(name, "incarnation.")
		})
		servicetest.Is(t, got, want, "the tables of models/internal/schema")
	})
	described := make(map[string]bool) // the tables
	var got []string
	for _, model := range []any{&models.User{}, &models.Session{}, &models.Event{}, &models.RSVP{}} {
		parsed := servicetest.Must(schema.Parse(model, new(sync.Map), schema.NamingStrategy{}))(t)
		described[parsed.Table] = true
		for _, name := range parsed.DBNames {
			got = append(got, parsed.Table+"."+name)
		}
	}
	slices.Sort(got)
	want := slices.DeleteFunc(models.SchemaColumns(), func(name string) bool {
		table, _, _ := strings.Cut(name, ".")
		return !described[table]
	})
	servicetest.Is(t, got, want, "the columns of the models")
}
