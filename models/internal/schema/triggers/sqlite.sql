-- The triggers that mark changes. A migration makes them, and migrate runs this again where some are missing.

-- +goose StatementBegin
CREATE TRIGGER IF NOT EXISTS changes_events_replace BEFORE INSERT ON events BEGIN
    DELETE FROM changes WHERE world_id IN (SELECT DISTINCT world_id FROM events WHERE number = NEW.number OR id = NEW.id);
    INSERT INTO changes (world_id) SELECT DISTINCT world_id FROM events WHERE number = NEW.number OR id = NEW.id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER IF NOT EXISTS changes_events_replace_others BEFORE UPDATE ON events WHEN NEW.number <> OLD.number OR NEW.id <> OLD.id BEGIN
    DELETE FROM changes WHERE world_id IN (SELECT DISTINCT world_id FROM events WHERE number = NEW.number OR id = NEW.id);
    INSERT INTO changes (world_id) SELECT DISTINCT world_id FROM events WHERE number = NEW.number OR id = NEW.id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER IF NOT EXISTS changes_events_insert AFTER INSERT ON events BEGIN
    DELETE FROM changes WHERE world_id IN (SELECT NEW.world_id);
    INSERT INTO changes (world_id) SELECT NEW.world_id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER IF NOT EXISTS changes_events_delete AFTER DELETE ON events BEGIN
    DELETE FROM changes WHERE world_id IN (SELECT OLD.world_id);
    INSERT INTO changes (world_id) SELECT OLD.world_id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER IF NOT EXISTS changes_events_update AFTER UPDATE ON events BEGIN
    DELETE FROM changes WHERE world_id IN (SELECT OLD.world_id UNION SELECT NEW.world_id);
    INSERT INTO changes (world_id) SELECT OLD.world_id UNION SELECT NEW.world_id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER IF NOT EXISTS changes_rsvps_insert AFTER INSERT ON rsvps BEGIN
    DELETE FROM changes WHERE world_id IN (SELECT world_id FROM events WHERE number = NEW.event_number);
    INSERT INTO changes (world_id) SELECT world_id FROM events WHERE number = NEW.event_number;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER IF NOT EXISTS changes_rsvps_delete AFTER DELETE ON rsvps BEGIN
    DELETE FROM changes WHERE world_id IN (SELECT world_id FROM events WHERE number = OLD.event_number);
    INSERT INTO changes (world_id) SELECT world_id FROM events WHERE number = OLD.event_number;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER IF NOT EXISTS changes_rsvps_update AFTER UPDATE ON rsvps BEGIN
    DELETE FROM changes WHERE world_id IN (SELECT DISTINCT world_id FROM events WHERE number IN (OLD.event_number, NEW.event_number));
    INSERT INTO changes (world_id) SELECT DISTINCT world_id FROM events WHERE number IN (OLD.event_number, NEW.event_number);
END;
-- +goose StatementEnd
