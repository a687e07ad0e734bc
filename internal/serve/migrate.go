package serve

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"worldevents/models"
)

// migrate brings the schema up to date, once the database responds, and then prunes until ctx ends.
func (i *instance) migrate(ctx context.Context) {
	migrate := i.store.Migrate
	if i.config.RequireDatabase {
		migrate = i.store.MigrateExisting
	}
	switch err := migrateWhenAvailable(ctx, migrate, i.server.StartFailed); {
	case err == nil:
		if i.store.Made() {
			i.log.Warn("there was no database, and a new one was made: if there should be one, find it before anybody writes", "database", i.store.Name())
		}
		for _, fixed := range i.store.Fixed() {
			i.log.Warn("the database was repaired", "found", fixed)
		}
		if schema := i.store.NewerSchema(); schema > 0 {
			i.log.Warn("the schema of the database is newer than this version of worldevents, and compatible", "schema", schema)
		}
		i.server.Ready()
		i.log.Info("ready")
		prune(ctx, i.store, i.log)
	case ctx.Err() == nil:
		i.errc <- err
	}
}

// migrateWhenAvailable tries again while the database is away, and calls failed after each attempt. It returns an error that waiting
// cannot cure, and that of ctx.
func migrateWhenAvailable(ctx context.Context, migrate func(context.Context) error, failed func(error)) error {
	for {
		err := migrate(ctx)
		switch {
		case err == nil, ctx.Err() != nil:
			return err
		case !errors.Is(err, models.ErrUnavailable) && !errors.Is(err, models.ErrTimeout) && !errors.Is(err, models.ErrBusy):
			return err
		}
		failed(err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

const (
	// pruneInterval is the rest after each thousand sessions: a million take an hour and a half, and nobody notices.
	pruneInterval = 5 * time.Second
	// pruneRest is the rest when nothing is left to do.
	pruneRest = 30 * time.Second
)

// prune deletes expired sessions, old marks of changes, and the rest of removed events, until ctx ends. Every instance does so. Advisory
// locks keep two of them from the same marks or events. Marks never rest for longer: pruning lets lists be cached again after a crash of
// PostgreSQL.
func prune(ctx context.Context, store *models.Store, log *slog.Logger) {
	var last models.ID
	go pruneAgain(ctx, log, "sessions", func() (done bool, err error) {
		last, _, err = store.PruneSessions(ctx, last)
		return last.IsZero(), err
	})
	go pruneAgain(ctx, log, "marks of changes", func() (done bool, err error) {
		_, err = store.PruneChanges(ctx)
		return false, err
	})
	go pruneAgain(ctx, log, "removed events", func() (done bool, err error) { return true, store.SweepEvents(ctx) })
}

// pruneAgain repeats one part of prune, beside the others: each may have much to do.
func pruneAgain(ctx context.Context, log *slog.Logger, what string, prune func() (done bool, err error)) {
	for rest := pruneInterval; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(rest):
		}
		done, err := prune()
		if err != nil && ctx.Err() == nil {
			log.Warn(what+" not pruned", "error", err.Error())
		}
		if rest = pruneInterval; done && err == nil {
			rest = pruneRest
		}
	}
}
