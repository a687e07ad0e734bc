package models

import (
	"context"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"worldevents/models/internal/schema"
)

// Sweep deletes a batch of removed events, and goes on where the one before ended. It returns the number of an event that it has begun.
func (s *Store) Sweep(at *Swept) (event int64, err error) {
	err = s.transaction(context.Background(), func(tx *gorm.DB) (err error) {
		*at, err = s.sweep(tx, *at)
		return err
	})
	return at.event, err
}

// Swept is where a sweep has come to.
type Swept = swept

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

// ListStatements returns those of a list, which do not go through GORM.
func (s *Store) ListStatements() []string {
	at := time.Unix(1, 0)
	text, _ := s.listQuery(s.dialect.moments.now, ListOptions{From: at, To: at, Limit: 1, After: Position{at, ID{1}}}, Caller{ID{1}, ID{2}})
	return []string{text}
}

// SchemaColumns returns the columns that a schema is held to, as table.column, sorted.
func SchemaColumns() (all []string) {
	for table, columns := range schema.Columns {
		for column := range strings.SplitSeq(columns, ", ") {
			all = append(all, table+"."+column)
		}
	}
	slices.Sort(all)
	return all
}
