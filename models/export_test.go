package models

import "gorm.io/gorm"

// GORM lets tests use the database as somebody would who adds a statement.
func (s *Store) GORM() *gorm.DB { return s.writer.gorm }
