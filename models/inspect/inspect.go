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

// Database looks at the database of options without changing anything. It reads it even if the service would
// refuse to start with it, since that is when an operator asks.
func Database(ctx context.Context, o models.Options) Inspection {
	i := &inspector{about: "DATABASE_URL"}
	if path, ok := strings.CutPrefix(o.URL, "sqlite:"); ok {
		i.sqlite(ctx, path, o.Timeout)
	} else {
		i.postgres(ctx, o)
	}
	return i.found
}

// inspectTimeout bounds the making of a connection and each look at something small. Counting and checking rows
// has no limit.
const inspectTimeout = 5 * time.Second

// inspector looks at a database.
type inspector struct {
	about string       // what the next findings are about
	value schema.Value // of the database, once it is open
	found Inspection
}

func (i *inspector) add(level Level, format string, args ...any) {
	i.found.Findings = append(i.found.Findings, Finding{level, i.about, fmt.Sprintf(format, args...)})
}

// failed adds a Fault if there is an error, and reports whether there is.
func (i *inspector) failed(err error) bool {
	if err != nil {
		i.add(Fault, "%s", dberr.RootCause(err))
	}
	return err != nil
}

// inspectedIndexes are the indexes that belong to no constraint. Without one of them the service would read
// whole tables, or let two users look alike.
var inspectedIndexes = []string{
	"users_folded", "users_skeleton", "users_given_folded", "users_given_skeleton", "sessions_user", "events_list", "events_creator", "rsvps_list",
}

// tables looks at the schema, as far as serve can work with it, and at indexes. missing selects what is wrong with an index, for which
// %[1]s stands. It reports whether there are tables to look at.
func (i *inspector) tables(ctx context.Context, d schema.Database, missing string) bool {
	j, err := d.Judge(ctx, i.value)
	if i.failed(err) {
		return false
	}
	for _, text := range slices.Concat(j.Unusable, j.Refused, j.Fixable) {
		i.add(Fault, "%s", text)
	}
	if len(j.Unusable) > 0 || !i.version(j.Version, schema.Newest()) {
		return false
	}
	for _, index := range inspectedIndexes {
		i.isFine(ctx, fmt.Sprintf(missing, index))
	}
	return true
}

// isFine reports whether a query selects "". If not it selects what is wrong, which becomes a Fault.
func (i *inspector) isFine(ctx context.Context, query string) bool {
	var wrong string
	if i.failed(i.value(ctx, &wrong, query)) {
		return false
	}
	if wrong != "" {
		i.add(Fault, "%s", wrong)
	}
	return wrong == ""
}

// count counts the rows of each table.
func (i *inspector) count(ctx context.Context) {
	var err error
	i.found.Rows, err = schema.CountRows(ctx, i.value)
	i.failed(err)
}

// version compares the version of the schema with the one that this program needs. It reports whether there are
// tables to look at.
func (i *inspector) version(version, needed int64) bool {
	switch {
	case version == 0:
		i.add(Warning, "has no tables yet: serve and migrate make them")
		return false
	case version < needed:
		i.add(Warning, "the schema is version %d: serve and migrate bring it to version %d", version, needed)
		return false
	case version > needed:
		i.add(Warning, "the schema is version %d, and this program knows %d: it is of a newer one", version, needed)
	default:
		i.add(Fine, "the schema is version %d", version)
	}
	return true
}
