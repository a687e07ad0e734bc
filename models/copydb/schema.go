package copydb

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
	j, err := d.Judge(ctx, value)
	switch newest := schema.Newest(); {
	case err != nil:
		return err
	case j.Version == 0:
		return errors.New("has no schema of this program: there is nothing to copy")
	case j.Version < newest:
		return fmt.Errorf("has the schema %d, and this program is for %d: run worldevents migrate with this DATABASE_URL first", j.Version, newest)
	case j.Version > newest:
		return errNewerSchema(j.Version)
	case len(j.Unusable) > 0:
		return errors.New(strings.Join(j.Unusable, "; "))
	}
	return nil
}

func errNewerSchema(version int64) error {
	return fmt.Errorf("has the schema %d, and this program knows only those up to %d: use a newer version of it", version, schema.Newest())
}
