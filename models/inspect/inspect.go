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

// Finding is a result of Database, without secrets.
type Finding struct {
	Level Level `json:"level"`
	// About is a setting, a host or a file.
	About string `json:"about"`
	Text  string `json:"text"`
}

type Level string

const (
	Fine    Level = "ok"
	Warning Level = "warning" // works, but is rarely meant
	Fault   Level = "fault"   // keeps the service from working, now or soon, or is damaged data
)

type Inspection struct {
	Findings []Finding
	Rows     map[string]int64 // of each table that copydb copies; nil if they could not be counted
}

// Database looks at the database of options without changing anything, even if the service would refuse to start with it.
func Database(ctx context.Context, o models.Options) Inspection {
	i := &inspector{about: "DATABASE_URL"}
	if path, ok := strings.CutPrefix(o.URL, "sqlite:"); ok {
		i.sqlite(ctx, path, o.Timeout)
	} else {
		i.postgres(ctx, o)
	}
	return i.found
}

// inspectTimeout bounds a connection and each small query. Counting and checking rows has no limit.
const inspectTimeout = 5 * time.Second

type inspector struct {
	about string       // of the next findings
	value schema.Value // of the database, once it is open
	found Inspection
}

func (i *inspector) add(level Level, format string, args ...any) {
	i.found.Findings = append(i.found.Findings, Finding{level, i.about, fmt.Sprintf(format, args...)})
}

// failed adds a Fault for an error, and reports whether there is one.
func (i *inspector) failed(err error) bool {
	if err != nil {
		i.add(Fault, "%s", dberr.RootCause(err))
	}
	return err != nil
}

// inspectedIndexes belong to no constraint. Without one the service would read whole tables, or let two users look alike.
var inspectedIndexes = []string{
	"users_folded", "users_skeleton", "users_given_folded", "users_given_skeleton", "sessions_user", "events_list", "events_creator", "rsvps_list",
}

// tables looks at the schema and the indexes, and reports whether there are tables. missing selects what is wrong with the index %[1]s.
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

// isFine reports whether a query selects "". Else it selects a text for a Fault.
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

func (i *inspector) count(ctx context.Context) {
	var err error
	i.found.Rows, err = schema.CountRows(ctx, i.value)
	i.failed(err)
}

// version compares the schema with that of this program, and reports whether there are tables to look at.
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
