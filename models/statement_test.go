package models

import (
	"slices"
	"testing"
	"time"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

// A statement of parts is what GORM itself would build of it.
func TestStatement(t *testing.T) {
	db, err := gorm.Open(postgres.New(postgres.Config{Conn: pgxPool{}}), &gorm.Config{DisableAutomaticPing: true, DryRun: true, Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(0, 0)
	type build func(sql string, vars ...any) any
	for name, statement := range map[string]func(part build) (string, []any){
		"nothing":    func(build) (string, []any) { return "SELECT 1", nil },
		"parameters": func(build) (string, []any) { return "SELECT ?, f(a, ?) WHERE x = ?", []any{1, "two", now} },
		"parts":      func(part build) (string, []any) { return "? AND ?", []any{part("a = ?", 1), part("b")} },
		"nested parts": func(part build) (string, []any) {
			return "x = ? AND ? OR ?", []any{0, part("a(?, 3)", part("b > ?", now)), ID{1}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			sql, vars := statement(func(sql string, vars ...any) any { return expr{sql, vars} })
			got := raw(db, sql, vars...).Statement
			sql, vars = statement(func(sql string, vars ...any) any { return clause.Expr{SQL: sql, Vars: vars} })
			want := db.Raw(sql, vars...).Statement
			if got.SQL.String() != want.SQL.String() || !slices.Equal(got.Vars, want.Vars) {
				t.Errorf("got %q %v, want %q %v", got.SQL.String(), got.Vars, want.SQL.String(), want.Vars)
			}
		})
	}
}
