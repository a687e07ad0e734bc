-- +goose Up
-- One row: the lowest number of a schema that a program must know to work with this database. A migration after which older
-- programs would fail sets it to its own number.
CREATE TABLE compatibility (
    oldest INTEGER NOT NULL
);
INSERT INTO compatibility VALUES (1);

-- Times are UTC text that sorts; see migrations/postgres for what the columns mean. Each time has one spelling, or equal
-- times would not be equal: 2030-01-02 03:04:05.25+00:00, without zeros at the end of the fraction. Events are scheduled
-- at whole milliseconds. Ids are UUIDs in lower case.
CREATE TABLE users (
    number             INTEGER  PRIMARY KEY NOT NULL,
    id                 TEXT     NOT NULL UNIQUE CHECK (id GLOB '????????-????-????-????-????????????' AND length(replace(id, '-', '')) = 32 AND replace(id, '-', '') NOT GLOB '*[^0-9a-f]*'),
    username           TEXT     NOT NULL UNIQUE CHECK (username <> '' AND instr(username, char(10)) = 0),
    created_at         DATETIME NOT NULL,
    issuer             TEXT,
    subject            TEXT     CHECK ((issuer IS NULL) = (subject IS NULL)),
    folded             TEXT,
    skeleton           TEXT,
    blocked_at         DATETIME,
    UNIQUE (issuer, subject),
    UNIQUE (number, username)
);
CREATE UNIQUE INDEX users_folded ON users (folded) WHERE issuer IS NOT NULL;
CREATE UNIQUE INDEX users_skeleton ON users (skeleton) WHERE issuer IS NOT NULL;
CREATE INDEX users_given_folded ON users (folded) WHERE issuer IS NULL;
CREATE INDEX users_given_skeleton ON users (skeleton) WHERE issuer IS NULL;

CREATE TABLE blocked_identities (
    hash       BLOB     PRIMARY KEY NOT NULL CHECK (length(hash) = 32),
    blocked_at DATETIME NOT NULL
);

CREATE TABLE sessions (
    id           TEXT     PRIMARY KEY NOT NULL CHECK (id GLOB '????????-????-????-????-????????????' AND length(replace(id, '-', '')) = 32 AND replace(id, '-', '') NOT GLOB '*[^0-9a-f]*'),
    user_id      TEXT     NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    handle_hash  BLOB     NOT NULL UNIQUE CHECK (length(handle_hash) = 32),
    created_at   DATETIME NOT NULL,
    device       TEXT     NOT NULL,
    network      TEXT     NOT NULL,
    provider_sid TEXT     CHECK (length(provider_sid) BETWEEN 1 AND 255),
    revoked_at   DATETIME,
    refreshed_at DATETIME NOT NULL,
    expires_at   DATETIME NOT NULL,
    token_hash   BLOB     CHECK (length(token_hash) = 32),
    spent        BLOB     NOT NULL CHECK (length(spent) <= 192)
);
CREATE INDEX sessions_user ON sessions (user_id);
CREATE INDEX sessions_provider_sid ON sessions (provider_sid) WHERE provider_sid IS NOT NULL;

-- No number is given out again, since whoever reads a large event in parts knows it by its number.
CREATE TABLE events (
    number       INTEGER  PRIMARY KEY AUTOINCREMENT NOT NULL CHECK (number > 0),
    id           TEXT     NOT NULL UNIQUE CHECK (id GLOB '????????-????-????-????-????????????' AND length(replace(id, '-', '')) = 32 AND replace(id, '-', '') NOT GLOB '*[^0-9a-f]*'),
    world_id     TEXT     NOT NULL,
    creator_id   TEXT     REFERENCES users (id) ON DELETE SET NULL,
    name         TEXT     NOT NULL,
    description  TEXT     NOT NULL,
    scheduled_at DATETIME NOT NULL CHECK (
        datetime(substr(scheduled_at, 1, 19), '+0 seconds') IS substr(scheduled_at, 1, 19) AND substr(scheduled_at, 1, 4) >= '1970'
        AND (substr(scheduled_at, 20) = '+00:00' OR substr(scheduled_at, 20) GLOB '.*[1-9]+00:00'
            AND substr(scheduled_at, 21, length(scheduled_at) - 26) NOT GLOB '*[^0-9]*' AND length(scheduled_at) <= 29)),
    created_at   DATETIME NOT NULL,
    request_hash BLOB     CHECK (length(request_hash) = 32)
);
CREATE INDEX events_list ON events (world_id, scheduled_at, id);
CREATE INDEX events_creator ON events (creator_id);

CREATE TABLE rsvps (
    event_number INTEGER  NOT NULL REFERENCES events (number) ON DELETE CASCADE,
    created_at   DATETIME NOT NULL CHECK (
        datetime(substr(created_at, 1, 19), '+0 seconds') IS substr(created_at, 1, 19) AND substr(created_at, 1, 4) >= '1970'
        AND (substr(created_at, 20) = '+00:00' OR substr(created_at, 20) GLOB '.*[1-9]+00:00'
            AND substr(created_at, 21, length(created_at) - 26) NOT GLOB '*[^0-9]*' AND length(created_at) <= 35)),
    user_number  INTEGER  NOT NULL,
    username     TEXT     NOT NULL,
    PRIMARY KEY (user_number, event_number),
    FOREIGN KEY (user_number, username) REFERENCES users (number, username) ON UPDATE CASCADE ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX rsvps_list ON rsvps (event_number, created_at, user_number, username);

-- When the lists of a world changed last: one mark for each world, with a number higher than all before it. A list that was read when
-- the sequence had come to a number is current as long as the mark of its world has no higher one. Triggers write the marks, so that
-- whoever changes a row by hand leaves one, too. Within a cascade SQLite knows no OR REPLACE; one by hand deletes events silently.
CREATE TABLE changes (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    world_id TEXT    NOT NULL UNIQUE
);

-- One row, as in PostgreSQL: marks up to horizon may be deleted, and a list that was read before it can be compared with nothing. Each
-- horizon has been next for a while. The time is in seconds since 1970.
CREATE TABLE incarnation (
    one        INTEGER PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    horizon    INTEGER NOT NULL DEFAULT 0,
    next       INTEGER NOT NULL DEFAULT 0,
    next_since INTEGER NOT NULL DEFAULT (unixepoch())
);
INSERT INTO incarnation DEFAULT VALUES;

-- +include triggers

-- +goose Down
DROP TABLE changes;
DROP TABLE incarnation;
DROP TABLE rsvps;
DROP TABLE events;
DROP TABLE sessions;
DROP TABLE blocked_identities;
DROP TABLE users;
DROP TABLE compatibility;
