-- +goose Up
-- Text compares byte by byte (COLLATE "C"): names and ids are exact, and the order is the same on every machine.
CREATE TABLE users (
    id                 uuid        PRIMARY KEY,
    -- Lists join the names with line feeds. The other rules for names are the program's.
    username           text        COLLATE "C" NOT NULL UNIQUE CHECK (username <> '' AND position(E'\n' IN username) = 0),
    created_at         timestamptz NOT NULL,
    -- SHA-256 of the current refresh token; the value itself is stored nowhere.
    refresh_hash       bytea       UNIQUE CHECK (octet_length(refresh_hash) = 32),
    refresh_expires_at timestamptz,
    -- SHA-256 of the value that the last refresh replaced, and when: tells a late second tab from a stolen copy.
    previous_hash      bytea       CHECK (octet_length(previous_hash) = 32),
    rotated_at         timestamptz,
    -- What rsvps refers to.
    UNIQUE (id, username)
);
CREATE INDEX users_previous_hash ON users (previous_hash) WHERE previous_hash IS NOT NULL;

CREATE TABLE events (
    id           uuid        PRIMARY KEY,
    world_id     text        COLLATE "C" NOT NULL,
    creator_id   uuid        REFERENCES users (id) ON DELETE SET NULL,
    name         text        NOT NULL,
    description  text        NOT NULL,
    -- What a cursor can name: whole milliseconds of the years 1970 to 9999 (UTC).
    scheduled_at timestamptz NOT NULL CHECK (scheduled_at >= '1970-01-01 00:00:00+00' AND scheduled_at < '10000-01-01 00:00:00+00'
        AND scheduled_at AT TIME ZONE 'UTC' = date_trunc('milliseconds', scheduled_at AT TIME ZONE 'UTC')),
    created_at   timestamptz NOT NULL
);
CREATE INDEX events_list ON events (world_id, scheduled_at, id);
CREATE INDEX events_creator ON events (creator_id);

-- The username is kept in the row, and kept true by the database, so that a list reads one index and no users.
CREATE TABLE rsvps (
    event_id   uuid        NOT NULL REFERENCES events (id) ON DELETE CASCADE,
    user_id    uuid        NOT NULL,
    username   text        COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (event_id, user_id),
    FOREIGN KEY (user_id, username) REFERENCES users (id, username) ON UPDATE CASCADE ON DELETE CASCADE
);
CREATE INDEX rsvps_list ON rsvps (event_id, created_at, user_id) INCLUDE (username);
CREATE INDEX rsvps_user ON rsvps (user_id);

-- +goose Down
DROP TABLE rsvps;
DROP TABLE events;
DROP TABLE users;
