package models

import (
	"context"
	"slices"
	"strings"

	"gorm.io/gorm"
)

// Write lets tests use the database as somebody would who adds a statement.
func (s *Store) Write(ctx context.Context, fn func(tx *gorm.DB) error) error { return s.write(ctx, fn) }

// EachStatement calls see with every statement that goes through GORM from now on.
func (s *Store) EachStatement(see func(sql string)) {
	for _, db := range []*gorm.DB{s.writer.gorm, s.reader.gorm} {
		on, hook := db.Callback(), func(tx *gorm.DB) { see(tx.Statement.SQL.String()) }
		on.Create().After("gorm:create").Register("see", hook)
		on.Update().After("gorm:update").Register("see", hook)
		on.Query().After("gorm:query").Register("see", hook)
		on.Row().After("gorm:row").Register("see", hook)
		on.Raw().After("gorm:raw").Register("see", hook)
	}
}

// SchemaColumns returns the columns that a schema is held to, as table.column, sorted.
func SchemaColumns() (all []string) {
	for table, columns := range schemaTables {
		for column := range strings.SplitSeq(columns, ", ") {
			all = append(all, table+"."+column)
		}
	}
	slices.Sort(all)
	return all
}

// LockedRows returns how many rows are known to be locked.
func (s *Store) LockedRows() int {
	l := s.writes.(*lane)
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.rows)
}
