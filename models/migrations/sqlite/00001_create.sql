-- +goose Up
-- Times are UTC text that sorts; see migrations/postgres for what the columns mean.
CREATE TABLE users (
    id                 TEXT     PRIMARY KEY NOT NULL,
    username           TEXT     NOT NULL UNIQUE CHECK (username <> '' AND instr(username, char(10)) = 0),
    created_at         DATETIME NOT NULL,
    refresh_hash       BLOB     UNIQUE CHECK (length(refresh_hash) = 32),
    refresh_expires_at DATETIME,
    previous_hash      BLOB     CHECK (length(previous_hash) = 32),
    rotated_at         DATETIME,
    UNIQUE (id, username)
);
CREATE INDEX users_previous_hash ON users (previous_hash) WHERE previous_hash IS NOT NULL;

CREATE TABLE events (
    id           TEXT     PRIMARY KEY NOT NULL,
    world_id     TEXT     NOT NULL,
    creator_id   TEXT     REFERENCES users (id) ON DELETE SET NULL,
    name         TEXT     NOT NULL,
    description  TEXT     NOT NULL,
    scheduled_at DATETIME NOT NULL,
    created_at   DATETIME NOT NULL
);
CREATE INDEX events_list ON events (world_id, scheduled_at, id);
CREATE INDEX events_creator ON events (creator_id);

CREATE TABLE rsvps (
    event_id   TEXT     NOT NULL REFERENCES events (id) ON DELETE CASCADE,
    user_id    TEXT     NOT NULL,
    username   TEXT     NOT NULL,
    created_at DATETIME NOT NULL,
    PRIMARY KEY (event_id, user_id),
    FOREIGN KEY (user_id, username) REFERENCES users (id, username) ON UPDATE CASCADE ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX rsvps_list ON rsvps (event_id, created_at, user_id, username);
CREATE INDEX rsvps_user ON rsvps (user_id, username);

-- +goose Down
DROP TABLE rsvps;
DROP TABLE events;
DROP TABLE users;
