package models

import (
	"context"

	"gorm.io/gorm"
)

// Write lets tests use the database as somebody would who adds a statement.
func (s *Store) Write(ctx context.Context, fn func(tx *gorm.DB) error) error { return s.write(ctx, fn) }
