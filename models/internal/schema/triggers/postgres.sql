-- The functions and triggers that mark changes. A migration makes them, and migrate runs this again where some are missing, name another
-- schema or do not always fire. They stand in the schema that comes first in search_path.

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION mark_events() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO changes (world_id) SELECT DISTINCT world_id FROM changed ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- Of an event that was just removed with its RSVPs the row is gone, and its world has a mark. DISTINCT goes with no lock, so that the locks
-- are those of an inner query.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION mark_rsvps() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO changes (world_id) SELECT DISTINCT world_id FROM (
        SELECT e.world_id FROM changed c JOIN events e ON e.number = c.event_number FOR KEY SHARE OF e
    ) locked ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- Who changes the RSVPs of an event marks the world that it is in just then, and keeps it there until the end of the transaction with the
-- lock of a foreign key, which stops no edit. That of who joins is the foreign key's own: its trigger fires before changes_insert, since its
-- name begins with RI. An event that moves to another world takes the one lock that waits for this one. It moves out of all worlds when it
-- is removed, which marks the one that it was in.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION await_rsvps() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM FROM events WHERE number = OLD.number FOR UPDATE;
    RETURN NEW;
END $$;
-- +goose StatementEnd

-- What users do changes one row at a time. A trigger for rows takes half of the time of one that gathers what a statement has changed, and
-- one that finds all by its schema, whoever calls it, two thirds of one that sets search_path. No RSVP of an event that was removed needs
-- a mark; OFFSET has PostgreSQL look at that behind the lock, when the event may have come back.
-- +goose StatementBegin
DO $$
DECLARE
    one text[];
BEGIN
    FOREACH one SLICE 1 IN ARRAY ARRAY[
        ['mark_event', 'VALUES (NEW.world_id)'],
        ['mark_join', 'SELECT world_id FROM %1$I.events WHERE number OPERATOR(pg_catalog.=) NEW.event_number'],
        ['mark_leave', 'SELECT world_id FROM (SELECT world_id FROM %1$I.events WHERE number OPERATOR(pg_catalog.=) OLD.event_number OFFSET 0 FOR KEY SHARE) locked WHERE world_id OPERATOR(pg_catalog.<>) %2$L']
    ] LOOP
        EXECUTE format('CREATE OR REPLACE FUNCTION %I() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS %L', one[1],
            format('BEGIN INSERT INTO %1$I.changes (world_id) ' || one[2] || ' ON CONFLICT DO NOTHING; RETURN NULL; END', current_schema(), ''));
    END LOOP;
END $$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER changes_insert AFTER INSERT ON events FOR EACH ROW EXECUTE FUNCTION mark_event();
CREATE OR REPLACE TRIGGER changes_insert AFTER INSERT ON rsvps FOR EACH ROW EXECUTE FUNCTION mark_join();
CREATE OR REPLACE TRIGGER changes_delete AFTER DELETE ON rsvps FOR EACH ROW EXECUTE FUNCTION mark_leave();
CREATE OR REPLACE TRIGGER changes_delete AFTER DELETE ON events REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION mark_events();
CREATE OR REPLACE TRIGGER changes_before AFTER UPDATE ON events REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION mark_events();
CREATE OR REPLACE TRIGGER changes_before AFTER UPDATE ON rsvps REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION mark_rsvps();
CREATE OR REPLACE TRIGGER changes_after AFTER UPDATE ON events REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION mark_events();
CREATE OR REPLACE TRIGGER changes_after AFTER UPDATE ON rsvps REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION mark_rsvps();
CREATE OR REPLACE TRIGGER changes_move BEFORE UPDATE OF world_id ON events FOR EACH ROW
    WHEN (OLD.world_id <> NEW.world_id AND NEW.world_id <> '') EXECUTE FUNCTION await_rsvps();
-- +goose StatementBegin
DO $$
DECLARE
    one text;
BEGIN
    FOREACH one IN ARRAY ARRAY['mark_events', 'mark_rsvps', 'await_rsvps'] LOOP
        EXECUTE format('ALTER FUNCTION %I() SET search_path = %I, pg_temp', one, current_schema());
    END LOOP;
    FOREACH one IN ARRAY ARRAY['insert', 'delete', 'before', 'after'] LOOP
        EXECUTE format('ALTER TABLE events ENABLE ALWAYS TRIGGER changes_%s', one);
        EXECUTE format('ALTER TABLE rsvps ENABLE ALWAYS TRIGGER changes_%s', one);
    END LOOP;
    ALTER TABLE events ENABLE ALWAYS TRIGGER changes_move;
END $$;
-- +goose StatementEnd
-- Whoever may execute one of these has it run with the rights of its owner, by a trigger on a table of their own. Only who makes a trigger
-- is asked for the right, not who fires it.
REVOKE EXECUTE ON FUNCTION mark_event(), mark_join(), mark_leave(), mark_events(), mark_rsvps(), await_rsvps() FROM PUBLIC;
