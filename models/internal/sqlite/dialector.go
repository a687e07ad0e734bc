package sqlite

import (
	"database/sql"
	"sync"

	"gorm.io/gorm"
	"gorm.io/gorm/callbacks"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
	"gorm.io/gorm/schema"
)

// dialector is the part of SQLite that the store needs of GORM. GORM's own package for it would link a second SQLite, in C.
type dialector struct{ pool gorm.ConnPool }

// NewDialector puts GORM over a pool of readers.
func NewDialector(db *sql.DB) gorm.Dialector { return dialector{statements{db, new(sync.Map)}} }

func (d dialector) Name() string { return "sqlite" }

func (d dialector) Initialize(db *gorm.DB) error {
	db.ConnPool = d.pool
	callbacks.RegisterDefaultCallbacks(db, &callbacks.Config{
		CreateClauses: []string{"INSERT", "VALUES", "ON CONFLICT", "RETURNING"},
		UpdateClauses: []string{"UPDATE", "SET", "WHERE", "RETURNING"},
		DeleteClauses: []string{"DELETE", "FROM", "WHERE", "RETURNING"},
	})
	db.ClauseBuilders["FOR"] = func(clause.Clause, clause.Builder) {} // SQLite locks no rows: its writer has the whole file
	return nil
}

func (d dialector) BindVarTo(w clause.Writer, _ *gorm.Statement, _ any) { w.WriteByte('?') }

// QuoteTo quotes a name of the schema, which has neither dots nor quotes.
func (d dialector) QuoteTo(w clause.Writer, name string) { w.WriteString("`" + name + "`") }

func (d dialector) Explain(sql string, vars ...any) string {
	return logger.ExplainSQL(sql, nil, `"`, vars...)
}

func (d dialector) DataTypeOf(field *schema.Field) string { return string(field.DataType) }

func (d dialector) DefaultValueOf(*schema.Field) clause.Expression { return clause.Expr{SQL: "NULL"} }

// Migrator returns nil: package schema migrates.
func (d dialector) Migrator(*gorm.DB) gorm.Migrator { return nil }
