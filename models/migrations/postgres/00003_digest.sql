-- +goose Up
-- Stands for all of an event, whose texts are too long for an index: whether a list has changed is answered from
-- indexes alone, also when an event was changed by hand.
DROP INDEX events_list;
ALTER TABLE events ADD COLUMN digest bigint NOT NULL GENERATED ALWAYS AS (
    hashtextextended(description, hashtextextended(name,
        hashtextextended(encode(timestamptz_send(scheduled_at), 'hex'), uuid_hash_extended(id, 0))))
) STORED;
CREATE INDEX events_list ON events (world_id, scheduled_at, id) INCLUDE (digest);

-- +goose Down
DROP INDEX events_list;
ALTER TABLE events DROP COLUMN digest;
CREATE INDEX events_list ON events (world_id, scheduled_at, id);
