package copydb

import (
	"context"
	"errors"
	"fmt"

	"worldevents/models"
	"worldevents/models/internal/schema"
)

// makeSchema makes the tables of a target.
func makeSchema(ctx context.Context, o models.Options) error {
	store, err := models.Open(o)
	if err != nil {
		return err
	}
	defer store.Close()
	return store.Migrate(ctx)
}

// checkSourceSchema refuses a database whose rows this program cannot copy.
func checkSourceSchema(ctx context.Context, d schema.Database, value schema.Value) error {
	version, err := d.Version(ctx, value)
	switch newest := schema.Newest(); {
	case err != nil:
		return err
	case version == 0:
		return errors.New("has no schema of this program: there is nothing to copy")
	case version < newest:
		return fmt.Errorf("has the schema %d, and this program is for %d: run worldevents migrate with this DATABASE_URL first", version, newest)
	case version > newest:
		return errNewerSchema(version)
	}
	return nil
}

func errNewerSchema(version int64) error {
	return fmt.Errorf("has the schema %d, and this program knows only those up to %d: use a newer version of it", version, schema.Newest())
}
