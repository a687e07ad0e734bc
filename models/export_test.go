package models

import (
	"context"
	"slices"
	"strings"

	"gorm.io/gorm"
)

// Write lets tests use the database as somebody would who adds a statement.
func (s *Store) Write(ctx context.Context, fn func(tx *gorm.DB) error) error { return s.write(ctx, fn) }

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
