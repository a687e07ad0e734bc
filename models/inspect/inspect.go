package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"worldevents/models"
	"worldevents/models/internal/dberr"
	"worldevents/models/internal/schema"
)

// Finding is one thing that Database has looked at.
type Finding struct {
	Level Level `json:"level"`
	// About is a setting, a host or a file. Text says what there is to say about it. Neither has a secret.
	About string `json:"about"`
	Text  string `json:"text"`
}

// Level says how bad a Finding is.
type Level string

const (
	// Fine means that it is as it should be.
	Fine Level = "ok"
	// Warning means that it works and is rarely meant.
	Warning Level = "warning"
	// Fault means that it keeps the service from working, now or soon, or that data is damaged.
	Fault Level = "fault"
)

// Inspection is what Database has found.
type Inspection struct {
	Findings []Finding
	// Rows counts the rows of each table that copydb copies. It is nil if they could not be counted.
	Rows map[string]int64
}

func (i *Inspection) add(level Level, about, format string, args ...any) {
	i.Findings = append(i.Findings, Finding{level, about, fmt.Sprintf(format, args...)})
}

// count counts the rows of each table.
func (i *Inspection) count(ctx context.Context, about string, value schema.Value) {
	var err error
	if i.Rows, err = schema.CountRows(ctx, value); err != nil {
		i.add(Fault, about, "%s", dberr.RootCause(err))
	}
}

// Database looks at the database of options without changing anything. It reads it even if the service would
// refuse to start with it, since that is when an operator asks.
func Database(ctx context.Context, o models.Options) Inspection {
	if path, ok := strings.CutPrefix(o.URL, "sqlite:"); ok {
		return inspectSQLite(ctx, path, o.Timeout)
	}
	return inspectPostgres(ctx, o)
}

// inspectTimeout bounds the making of a connection and each look at something small. Counting and checking rows
// has no limit.
const inspectTimeout = 5 * time.Second

// inspectedIndexes are the indexes that belong to no constraint. Without one of them the service would read
// whole tables, or let two users look alike.
var inspectedIndexes = []string{
	"users_folded", "users_skeleton", "users_given_folded", "users_given_skeleton", "sessions_user", "events_list", "events_creator", "rsvps_list",
}

// orphans are rows that refer to nothing. The database keeps such rows out, unless somebody has switched its
// foreign keys off, as a restore may do. Each query selects one kind of them.
var orphans = map[string]string{
	"sessions of no user":     "SELECT 1 FROM sessions s WHERE NOT EXISTS (SELECT 1 FROM users WHERE id = s.user_id)",
	"events of no user":       "SELECT 1 FROM events e WHERE creator_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM users WHERE id = e.creator_id)",
	"RSVPs for no event":      "SELECT 1 FROM rsvps r WHERE NOT EXISTS (SELECT 1 FROM events WHERE number = r.event_number)",
	"RSVPs of no user's name": "SELECT 1 FROM rsvps r WHERE NOT EXISTS (SELECT 1 FROM users WHERE number = r.user_number AND username = r.username)",
}

// judge adds what keeps serve from working with the database, and what serve would change about it. It reports whether there are tables
// to look at.
func (i *Inspection) judge(ctx context.Context, about string, d schema.Database, value schema.Value) bool {
	j, err := d.Judge(ctx, value)
	if err != nil {
		i.add(Fault, about, "%s", dberr.RootCause(err))
		return false
	}
	for _, text := range slices.Concat(j.Unusable, j.Refused, j.Fixable) {
		i.add(Fault, about, "%s", text)
	}
	return len(j.Unusable) == 0 && i.version(about, j.Version, schema.Newest())
}

// version compares the version of the schema with the one that this program needs. It reports whether there are
// tables to look at.
func (i *Inspection) version(about string, version, needed int64) bool {
	switch {
	case version == 0:
		i.add(Warning, about, "has no tables yet: serve and migrate make them")
		return false
	case version < needed:
		i.add(Warning, about, "the schema is version %d: serve and migrate bring it to version %d", version, needed)
		return false
	case version > needed:
		i.add(Warning, about, "the schema is version %d, and this program knows %d: it is of a newer one", version, needed)
	default:
		i.add(Fine, about, "the schema is version %d", version)
	}
	return true
}
