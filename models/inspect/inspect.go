package inspect

import (
	"context"
	"fmt"
	"strings"
	"time"

	"worldevents/models"
	"worldevents/models/internal/schema"
)

// Finding is one thing that Inspect has looked at.
type Finding struct {
	Level Level
	// About is a setting, a host or a file, and Text what there is to say. Neither has a secret.
	About, Text string
}

// Level says how bad a Finding is.
type Level string

const (
	// Fine is as it should be.
	Fine Level = "ok"
	// Warning works, and is rarely meant.
	Warning Level = "warning"
	// Fault keeps the service from working, now or soon, or means that data is damaged.
	Fault Level = "fault"
)

// Inspection is what Inspect has found.
type Inspection struct {
	Findings []Finding
	// Rows counts those of each table that are copied. It is nil where they could not be counted.
	Rows map[string]int64
}

func (i *Inspection) add(level Level, about, format string, args ...any) {
	i.Findings = append(i.Findings, Finding{level, about, fmt.Sprintf(format, args...)})
}

// count counts rows by a query for a number.
func (i *Inspection) count(query func(text string, n *int64) error) error {
	rows := make(map[string]int64)
	for _, t := range schema.Copied {
		var n int64
		if err := query("SELECT count(*) FROM "+t.From(), &n); err != nil {
			return err
		}
		rows[t.Name] = n
	}
	i.Rows = rows
	return nil
}

// Database looks at the database of options without changing anything: no file is made, nothing is migrated.
func Database(ctx context.Context, o models.Options) Inspection {
	if path, ok := strings.CutPrefix(o.URL, "sqlite:"); ok {
		return inspectSQLite(ctx, path, o.Timeout)
	}
	return inspectPostgres(ctx, o)
}

// inspectTimeout bounds a connection, and looking at what is small.
const inspectTimeout = 5 * time.Second

// inspectedIndexes are the indexes that no constraint brings along.
var inspectedIndexes = []string{
	"users_folded", "users_skeleton", "users_given_folded", "users_given_skeleton", "sessions_user", "events_list", "events_creator", "rsvps_list",
}

// orphans are the references that the database keeps true, unless somebody has switched that off: each selects rows that
// refer to nothing.
var orphans = map[string]string{
	"sessions of no user":     "SELECT 1 FROM sessions s WHERE NOT EXISTS (SELECT 1 FROM users WHERE id = s.user_id)",
	"events of no user":       "SELECT 1 FROM events e WHERE creator_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM users WHERE id = e.creator_id)",
	"RSVPs for no event":      "SELECT 1 FROM rsvps r WHERE NOT EXISTS (SELECT 1 FROM events WHERE number = r.event_number)",
	"RSVPs of no user's name": "SELECT 1 FROM rsvps r WHERE NOT EXISTS (SELECT 1 FROM users WHERE number = r.user_number AND username = r.username)",
}

// version says how the version of the schema compares with the one that is needed, and reports whether there is one to look
// at.
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
