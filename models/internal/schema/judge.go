package schema

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Judgement is the result of Judge. Each text says what is wrong, and what to do about it.
type Judgement struct {
	Version  int64    // of the schema, 0 without one
	Unusable []string // keeps this program from doing anything with the database
	// Fixable makes answers wrong, calls fail, or the data unsafe. Fixes fix it; they are missing if only another role may run them.
	Fixable, Fixes []string
	Refused        []string // only the operator can fix
}

// rule is something that must be true of a database.
type rule struct {
	// query selects a text for the %s of words if the rule is broken, else "". With generated it selects such a query.
	query     string
	generated bool
	words     string
	// unusable means that nothing works with the rule broken. Otherwise fix are statements against that; without them the operator acts.
	unusable bool
	fix      string
}

// Judge looks for what keeps the service from working with a database, or from being safe there. All commands ask it, so that they agree.
// It changes nothing, and waits for no lock but that of compatibility.
func (d Database) Judge(ctx context.Context, value Value) (j Judgement, err error) {
	if j.Version, err = d.Version(ctx, value); err != nil {
		return j, err
	}
	switch {
	case j.Version == 0:
		err = d.judge(ctx, value, &j, append([]rule{d.tablesAreOurs()}, d.migrated...)...)
	case j.Version < Newest():
		err = d.judge(ctx, value, &j, d.migrated...)
	default:
		err = d.judge(ctx, value, &j, append([]rule{d.columnsAreThere(), isNew}, d.served...)...)
	}
	if j.Version > Newest() { // this program must not fix the work of a newer one
		j.Fixes = nil
	}
	return j, err
}

// judge checks rules, until a broken one makes the database unusable.
func (d Database) judge(ctx context.Context, value Value, j *Judgement, rules ...rule) error {
	for _, r := range rules {
		broken, query := "", r.query
		if r.generated {
			if err := value(ctx, &query, query); err != nil {
				return err
			}
		}
		if err := value(ctx, &broken, query); err != nil {
			return err
		}
		text := fmt.Sprintf(r.words, broken)
		switch {
		case broken == "":
		case r.unusable:
			j.Unusable = append(j.Unusable, text)
			return nil
		case r.fix == "":
			j.Refused = append(j.Refused, text)
		default:
			var other string // the role that may fix it, if this one may not
			if err := value(ctx, &other, d.otherOwner); err != nil {
				return err
			}
			if text += ": run worldevents migrate"; other != "" {
				text += " as the role " + other + ", who owns the tables"
			} else {
				j.Fixes = append(j.Fixes, r.fix)
			}
			j.Fixable = append(j.Fixable, text)
		}
	}
	return nil
}

// tablesAreOurs is the rule for a database without migrations.
func (d Database) tablesAreOurs() rule {
	var there []string
	for _, table := range slices.Sorted(maps.Keys(Columns)) {
		there = append(there, fmt.Sprintf("WHEN ("+d.HasTableQuery+") THEN '%[1]s'", table))
	}
	return rule{
		query:    "SELECT CASE " + strings.Join(there, " ") + " ELSE '' END",
		words:    "it has a table %s of another program, or of a version before the first release: name an empty database",
		unusable: true,
	}
}

// columnsAreThere is the rule for all columns that this program reads and writes.
func (d Database) columnsAreThere() rule {
	var wanted []string
	for _, table := range slices.Sorted(maps.Keys(Columns)) {
		for column := range strings.SplitSeq(Columns[table], ", ") {
			wanted = append(wanted, "('"+table+"', '"+column+"')")
		}
	}
	return rule{query: fmt.Sprintf(d.missing, strings.Join(wanted, ", ")), words: "%s: restore a backup", unusable: true}
}

// isNew is the rule that this program knows enough of the schema. oldest is the oldest one whose programs can still work with the database:
// a migration that removes something, or that demands more of writers, raises it.
var isNew = rule{
	query: fmt.Sprintf(`SELECT coalesce(max(CASE WHEN oldest > %[1]d THEN 'schema ' || (SELECT max(version_id) FROM goose_db_version WHERE is_applied)
		|| ', which programs that know schema ' || oldest || ' can use, and this one knows %[1]d' END), '') FROM compatibility`, Newest()),
	words:    "the schema of the database is newer, and needs a newer version of worldevents: it has %s",
	unusable: true,
}

// markTriggers fix what keeps changes from being marked. Writes meanwhile left no mark, so no earlier Moment may be compared any more.
var markTriggers = struct{ sqlite, postgres string }{
	sqlite:   Triggers("sqlite") + ";\nINSERT INTO changes (world_id) VALUES (''); DELETE FROM changes;\nINSERT INTO incarnation (one, horizon) SELECT 1, seq FROM sqlite_sequence WHERE name = 'changes' ON CONFLICT DO UPDATE SET horizon = excluded.horizon, next = excluded.horizon",
	postgres: Triggers("postgres") + ";\nDELETE FROM incarnation; INSERT INTO incarnation DEFAULT VALUES",
}

var sqliteServed = []rule{{
	query: `SELECT coalesce(group_concat(column1, ', '), '') FROM (VALUES ('events_replace'), ('events_replace_others'), ('events_insert'), ('events_delete'),
		('events_update'), ('rsvps_insert'), ('rsvps_delete'), ('rsvps_update')) WHERE NOT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND name = 'changes_' || column1)`,
	words: "the triggers changes_… (%s) are missing, so lists would go stale",
	fix:   markTriggers.sqlite,
}}

// postgresMigrated are the rules before a migration.
var postgresMigrated = []rule{{
	query: `SELECT CASE WHEN current_schema() IS NULL THEN 'search_path names no schema that the role may use: CREATE SCHEMA, GRANT USAGE, or name another one by ALTER ROLE … SET search_path'
		WHEN NOT has_schema_privilege(current_schema(), 'CREATE') THEN format('the role may make no tables in the schema %I: GRANT CREATE ON SCHEMA %1$I TO %I', current_schema(), current_user)
		ELSE '' END`,
	words: "%s",
}, publicSchemas}

// publicSchemas is the rule that nobody else puts functions where our statements find them.
var publicSchemas = rule{
	query: "SELECT coalesce(string_agg(format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC', name), '; '), '') FROM unnest(current_schemas(false)) name WHERE has_schema_privilege('public', name, 'CREATE')",
	words: "anybody may put functions where the statements of this role find them (CVE-2018-1058): %s",
}

// ours are the functions that triggers call with the rights of their owner, beside the table that must have the same owner.
const ours = `(VALUES ('mark_event'), ('mark_join'), ('mark_leave'), ('mark_events'), ('mark_rsvps'), ('await_rsvps')) ours (name)
	CROSS JOIN (SELECT relnamespace, relowner, nspname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE c.oid = to_regclass('events')) tables
	LEFT JOIN pg_proc p ON proname = name AND pronamespace = relnamespace AND pronargs = 0`

// identities are the columns that number rows, with their sequences.
const identities = `(SELECT CAST(attrelid AS regclass) AS tab, attname AS col, pg_get_serial_sequence(CAST(CAST(attrelid AS regclass) AS text), attname) AS seq FROM pg_attribute
	WHERE attrelid IN (to_regclass('users'), to_regclass('events'), to_regclass('goose_db_version')) AND attidentity <> '') identities`

// isBehind is the condition that the next number of a sequence is taken. One statement reads both: the sequence never goes back.
const isBehind = "(SELECT last_value + CAST(is_called AS int) FROM %1$s) <= (SELECT max(%2$I) FROM %3$s)"

// SetSequences are statements that set sequences which are behind, and none back. Nobody writes meanwhile.
const SetSequences = `LOCK TABLE users, events, goose_db_version IN SHARE ROW EXCLUSIVE MODE;
	DO $$ DECLARE one record; BEGIN
		FOR one IN SELECT * FROM ` + identities + ` LOOP
			EXECUTE format('SELECT setval(%4$L, max(%2$I)) FROM %3$s HAVING ` + isBehind + `', one.seq, one.col, one.tab, one.seq);
		END LOOP;
	END $$`

var postgresServed = []rule{publicSchemas, {
	query: `SELECT coalesce(string_agg(format('%s.changes_%s', tab, name), ', ' ORDER BY tab, name), '') FROM (SELECT tab, name FROM unnest(ARRAY['events', 'rsvps']) tab, unnest(ARRAY['insert', 'delete', 'before', 'after']) name
			UNION VALUES ('events', 'move')) wanted
		WHERE NOT EXISTS (SELECT 1 FROM pg_trigger WHERE tgrelid = to_regclass(tab) AND tgname = 'changes_' || name AND tgenabled = 'A')`,
	words: "the triggers %s are missing or do not always fire, so lists would go stale",
	fix:   markTriggers.postgres,
}, {
	query: `SELECT coalesce(string_agg(name, ', ' ORDER BY name), '') FROM ` + ours + ` WHERE NOT coalesce(prosecdef, false)
		OR strpos(prosrc, format('%I.changes', nspname)) = 0 AND format('search_path=%I, pg_temp', nspname) <> ALL (coalesce(proconfig, '{}'))`,
	words: "the functions %s are missing, or write to another schema than that of the tables",
	fix:   markTriggers.postgres,
}, {
	query: `SELECT coalesce(string_agg(name, ', ' ORDER BY name), '') FROM ` + ours + ` WHERE has_function_privilege('public', p.oid, 'EXECUTE')`,
	words: "anybody may run the functions %s with the rights of their owner",
	fix:   "REVOKE EXECUTE ON FUNCTION mark_event(), mark_join(), mark_leave(), mark_events(), mark_rsvps(), await_rsvps() FROM PUBLIC",
}, {
	query: `SELECT coalesce(string_agg(format('ALTER FUNCTION %s OWNER TO %I', CAST(p.oid AS regprocedure), pg_get_userbyid(relowner)), '; '), '') FROM ` + ours + ` WHERE proowner <> relowner`,
	words: "functions do not belong to the owner of the tables, with whose rights they run: %s",
}, {
	query: `SELECT coalesce(string_agg(DISTINCT name, ', '), '') FROM unnest(ARRAY['users', 'blocked_identities', 'sessions', 'events', 'rsvps', 'changes', 'incarnation']) name,
		unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) privilege
		WHERE NOT coalesce(has_table_privilege(to_regclass(name), privilege), true)`,
	words: "the role may not read and write %s: GRANT SELECT, INSERT, UPDATE, DELETE on all tables of the schema to it",
}, {
	query:     `SELECT 'SELECT concat_ws('', ''' || coalesce(string_agg(format(', CASE WHEN ` + isBehind + ` THEN %4$L END', seq, col, tab, CAST(tab AS text)), ''), '') || ', NULL)' FROM ` + identities + ` WHERE has_sequence_privilege(seq, 'SELECT')`,
	generated: true,
	words:     "the numbers of new rows in %s are taken already, as after a move by logical replication, so creates fail",
	fix:       SetSequences,
}}
