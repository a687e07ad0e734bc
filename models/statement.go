package models

import (
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// expr is a statement, or a part of one, with its parameters: each ? stands for the next of vars. It is clause.Expr for
// what has no lists of values; but that writes byte by byte, which shows in what a refresh costs.
type expr struct {
	sql  string
	vars []any
}

// Build implements clause.Expression. There are as many parameters as question marks. What has no lists of values needs none
// of the cases that GORM distinguishes.
func (e expr) Build(b clause.Builder) {
	stmt, ok := b.(*gorm.Statement)
	if !ok {
		clause.Expr{SQL: e.sql, Vars: e.vars}.Build(b)
		return
	}
	if stmt.SQL.Len() == 0 {
		stmt.SQL.Grow(len(e.sql) + 32*len(e.vars))
	}
	rest := e.sql
	for _, v := range e.vars {
		var text string
		text, rest, _ = strings.Cut(rest, "?")
		stmt.SQL.WriteString(text)
		if part, ok := v.(expr); ok {
			part.Build(stmt)
		} else {
			stmt.Vars = append(stmt.Vars, v)
			stmt.BindVarTo(stmt, stmt, v)
		}
	}
	stmt.SQL.WriteString(rest)
}

// raw is tx.Raw for a statement that is run often.
func raw(tx *gorm.DB, sql string, vars ...any) *gorm.DB { return tx.Raw("?", expr{sql, vars}) }

// exec is tx.Exec for a statement that is run often.
func exec(tx *gorm.DB, sql string, vars ...any) *gorm.DB { return tx.Exec("?", expr{sql, vars}) }
