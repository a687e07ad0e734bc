package models

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"worldevents/models/internal/schema"
)

// ClockSkew bounds the difference between the clocks of two instances: a JWT that is expired at one may be valid for so long at another.
const ClockSkew = time.Minute

// noMaxAge is longer than any session lives.
const noMaxAge = 100 * 365 * 24 * time.Hour

// PruneSessions deletes sessions without a valid refresh token or JWT among the thousand rows whose ids follow after. It returns the last
// of these ids, to continue from, or zero at the end of the table. No index helps: one over the times would change with every refresh,
// which is far more frequent.
func (s *Store) PruneSessions(ctx context.Context, after ID) (last ID, deleted int64, err error) {
	last, err = s.endOfBatch(ctx, after)
	if err == nil && !last.IsZero() {
		err = s.write(ctx, func(tx *gorm.DB) error {
			const over = -TokenTTL - ClockSkew
			maxAge := cmp.Or(s.options.Sessions.MaxAge, noMaxAge)
			res := tx.Exec(`
				DELETE FROM sessions WHERE id > ? AND id <= ?
					AND (expires_at < ? OR created_at < ? OR token_hash IS NULL AND refreshed_at < ?)`,
				after, last, s.after(over), s.after(over-maxAge), s.after(over))
			deleted = res.RowsAffected
			return res.Error
		})
	}
	if err != nil {
		last = ID{} // to begin anew
	}
	return last, deleted, wrap(err, "prune sessions")
}

const (
	maxPrunedChanges = 10_000 // marks that one transaction deletes
	// keptChanges is the minimum age of deleted marks. An older Moment is never compared: the world then counts as changed.
	keptChanges = 10 * time.Minute
)

// PruneChanges deletes marks that no Moment of the last minutes needs, in batches with pauses, and returns their number.
//
// No clock decides that. The transaction that deletes also writes a horizon, and a Moment whose snapshot began before the horizon is not
// compared any more (moments.lost). The tables of marks and of the horizon are unlogged: a server that crashes empties both, and
// PruneChanges then begins a new incarnation, with which no earlier Moment can be compared.
//
// A file keeps one mark for each world, and deletes those of worlds without a change for a while.
func (s *Store) PruneChanges(ctx context.Context) (deleted int64, err error) {
	for n := int64(maxPrunedChanges); err == nil && n == maxPrunedChanges; {
		begin := time.Now()
		if s.file != nil {
			n, err = s.pruneFile(ctx)
		} else {
			err = s.transaction(ctx, func(tx *gorm.DB) (err error) {
				n, err = pruneChanges(tx)
				return err
			})
		}
		deleted += n
		if err == nil && n == maxPrunedChanges {
			err = rest(ctx, begin)
		}
	}
	return deleted, wrap(err, "prune changes")
}

// pruneFile deletes one batch of a file's marks. Without work it writes nothing.
func (s *Store) pruneFile(ctx context.Context) (deleted int64, err error) {
	err = s.transaction(ctx, func(tx *gorm.DB) error {
		for _, statement := range []string{
			"INSERT INTO incarnation (one, horizon, next) SELECT 1, " + sqliteLast + ", " + sqliteLast + " WHERE true ON CONFLICT DO NOTHING", // somebody has deleted the row
			fmt.Sprintf("UPDATE incarnation SET horizon = max(horizon, next), next = %s, next_since = unixepoch() WHERE horizon < %[1]s AND NOT next_since BETWEEN unixepoch() - %d AND unixepoch()",
				sqliteLast, int(keptChanges.Seconds())),
		} {
			if err := tx.Exec(statement).Error; err != nil {
				return err
			}
		}
		res := tx.Exec("DELETE FROM changes WHERE number IN (SELECT number FROM changes WHERE number <= (SELECT horizon FROM incarnation) ORDER BY number LIMIT ?)", maxPrunedChanges)
		deleted = res.RowsAffected
		return res.Error
	})
	return deleted, err
}

// marksAreTidy is the condition that pruneChanges has nothing to do, as it is all day on a database without writes.
var marksAreTidy = fmt.Sprintf(`
	EXISTS (SELECT 1 FROM incarnation WHERE pruned = horizon AND next_since BETWEEN now() - interval '%d s' AND now()
		AND greatest(horizon, next) <= pg_snapshot_xmax(pg_current_snapshot()))
	AND (SELECT xid FROM changes WHERE xid >= pg_snapshot_xmax(pg_current_snapshot()) ORDER BY xid LIMIT 1) IS NULL`, int(keptChanges.Seconds()))

// pruneChanges deletes one batch, unless there is nothing to do or another instance does it.
func pruneChanges(tx *gorm.DB) (deleted int64, err error) {
	var mine bool
	if err := scan(tx.Raw("SELECT CASE WHEN "+marksAreTidy+" THEN false ELSE pg_try_advisory_xact_lock(?) END", int64(schema.ChangesLock)), &mine); err != nil || !mine {
		return 0, err
	}
	for _, statement := range []string{
		// A restored dump may bring counters of its own server that are ahead of this one's.
		"DELETE FROM incarnation WHERE greatest(horizon, next) > pg_snapshot_xmax(pg_current_snapshot())",
		"INSERT INTO incarnation DEFAULT VALUES ON CONFLICT DO NOTHING",
		fmt.Sprintf(`UPDATE incarnation SET horizon = greatest(horizon, next), next = pg_snapshot_xmin(pg_current_snapshot()), next_since = now()
			WHERE NOT next_since BETWEEN now() - interval '%d s' AND now()`, int(keptChanges.Seconds())),
		"DELETE FROM changes WHERE ctid = ANY (ARRAY (SELECT ctid FROM changes WHERE xid >= pg_snapshot_xmax(pg_current_snapshot()) ORDER BY xid LIMIT 100000))",
	} {
		if err := tx.Exec(statement).Error; err != nil {
			return 0, err
		}
	}
	// Each batch begins at the end of the last: until a vacuum the index keeps deleted entries, and reading over them takes ever longer.
	err = scan(tx.Raw(`
		WITH old AS (
			SELECT ctid AS mark, xid FROM changes
			WHERE xid >= (SELECT pruned FROM incarnation) AND xid < (SELECT horizon FROM incarnation) ORDER BY xid LIMIT ?
		), gone AS (
			DELETE FROM changes WHERE ctid = ANY (ARRAY (SELECT mark FROM old))
		), moved AS (
			UPDATE incarnation SET pruned = CASE WHEN (SELECT count(*) FROM old) < ? THEN horizon ELSE (SELECT max(xid) FROM old) END
		)
		SELECT count(*) FROM old`, maxPrunedChanges, maxPrunedChanges), &deleted)
	return deleted, err
}
