package command

import (
	"errors"

	"worldevents/models"
)

type (
	// Migrate brings the schema of the database to the newest version.
	Migrate struct{}
	// Demo fills an empty database.
	Demo struct{}
)

// Run migrates.
func (Migrate) Run() error {
	return operateAfter((*models.Store).Migrate, false, func(*operation) error { return nil })
}

// Run fills an empty database.
func (Demo) Run() error {
	return operateAfter((*models.Store).Migrate, false, func(o *operation) error {
		if !o.config.Development {
			return errors.New("demo: only with APP_ENV=development")
		}
		filled, err := o.store.Demo(o)
		if err == nil && filled {
			o.audit("demo", "world", "plaza")
		}
		return err
	})
}
