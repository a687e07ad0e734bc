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

// Run migrates. It makes a missing database, even with REQUIRE_DATABASE.
func (Migrate) Run() error {
	return withStoreAfter((*models.Store).Migrate, false, func(cmd *command) error {
		for _, fixed := range cmd.store.Fixed() {
			note("repaired: " + fixed)
		}
		return nil
	})
}

// Run fills an empty database, in development alone.
func (Demo) Run() error {
	return withStoreAfter((*models.Store).Migrate, false, func(cmd *command) error {
		if !cmd.config.Development {
			return errors.New("demo: only with APP_ENV=development")
		}
		filled, err := cmd.store.Demo(cmd)
		if err == nil && filled {
			cmd.audit("demo", "world", "plaza")
		}
		return err
	})
}
