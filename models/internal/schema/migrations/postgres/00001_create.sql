-- +goose Up
-- One row: the lowest number of a schema that a program must know to work with this database. A migration after which older
-- programs would fail sets it to its own number.
CREATE TABLE compatibility (
    oldest bigint PRIMARY KEY
);
INSERT INTO compatibility VALUES (1);

-- Text compares byte by byte (COLLATE "C"): names and ids are exact, and the order is the same on every machine.
CREATE TABLE users (
    -- What rsvps refers to, in a quarter of the bytes of an id.
    number             integer     GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id                 uuid        NOT NULL UNIQUE,
    -- Lists join the names with line feeds. The other rules for names are the program's.
    username           text        COLLATE "C" NOT NULL UNIQUE CHECK (username <> '' AND position(E'\n' IN username) = 0),
    created_at         timestamptz NOT NULL,
    -- Who the user is at an identity provider: OpenID Connect Core 1.0 section 2 lets nothing but iss and sub together
    -- identify somebody. Both are NULL for users who never signed in there. The unique key makes one user of any number
    -- of concurrent first sign-ins.
    issuer             text        COLLATE "C",
    subject            text        COLLATE "C" CHECK ((issuer IS NULL) = (subject IS NULL)),
    UNIQUE (issuer, subject),
    -- The program makes both of the username: equal texts mean equal but for case, and alike. They are NULL for users who
    -- were added by hand.
    folded             text        COLLATE "C",
    skeleton           text        COLLATE "C",
    -- Since when the user may not sign in. Their sessions are revoked.
    blocked_at         timestamptz,
    -- What the username in rsvps refers to.
    UNIQUE (number, username)
);
-- No two names that identity providers gave look alike, however many come at once. Operators may give any name.
CREATE UNIQUE INDEX users_folded ON users (folded) WHERE issuer IS NOT NULL;
CREATE UNIQUE INDEX users_skeleton ON users (skeleton) WHERE issuer IS NOT NULL;
CREATE INDEX users_given_folded ON users (folded) WHERE issuer IS NULL;
CREATE INDEX users_given_skeleton ON users (skeleton) WHERE issuer IS NULL;

-- Who was removed and may not come back: SHA-256 of issuer, a zero byte and subject.
CREATE TABLE blocked_identities (
    hash       bytea       PRIMARY KEY CHECK (octet_length(hash) = 32),
    blocked_at timestamptz NOT NULL
);

-- A refresh changes only columns that no index has, and finds room for the new version of the row on its page: then it
-- writes to no index (a heap-only tuple). What it changes stands together behind what it does not, which is what the
-- write-ahead log need not repeat.
CREATE TABLE sessions (
    id           uuid        PRIMARY KEY,
    user_id      uuid        NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    -- SHA-256 of the part that all refresh tokens of the session begin with.
    handle_hash  bytea       NOT NULL UNIQUE CHECK (octet_length(handle_hash) = 32),
    created_at   timestamptz NOT NULL,
    -- For the user to know the session by.
    device       text        NOT NULL,
    network      text        NOT NULL,
    -- The identity provider's name for its session that this one began with, by which it says that it is over.
    provider_sid text        COLLATE "C" CHECK (length(provider_sid) BETWEEN 1 AND 255),
    revoked_at   timestamptz,
    refreshed_at timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    -- SHA-256 of the current refresh token; NULL once a revocation or a newer sign-in has taken it.
    token_hash   bytea       CHECK (octet_length(token_hash) = 32),
    -- The refresh tokens spent last, newest first: 6 bytes of SHA-256 and 6 of the time, in milliseconds since 1970.
    spent        bytea       NOT NULL CHECK (octet_length(spent) <= 192)
) WITH (fillfactor = 90);
CREATE INDEX sessions_user ON sessions (user_id);
CREATE INDEX sessions_provider_sid ON sessions (provider_sid) WHERE provider_sid IS NOT NULL;

-- Lists read the indexes of events and rsvps, and no row of a page that a vacuum has seen since it was written to. What is
-- listed most was written last: so these tables are vacuumed when they have grown by a hundredth, which is months before
-- the fifth that PostgreSQL would wait for. That costs little, because such a vacuum looks at the new pages alone.
CREATE TABLE events (
    -- What rsvps refers to, in half the bytes of an id.
    number       bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY CHECK (number > 0),
    id           uuid        NOT NULL UNIQUE,
    world_id     text        COLLATE "C" NOT NULL,
    creator_id   uuid        REFERENCES users (id) ON DELETE SET NULL,
    name         text        NOT NULL,
    description  text        NOT NULL,
    -- What a cursor can name: whole milliseconds of the years 1970 to 9999 (UTC).
    scheduled_at timestamptz NOT NULL CHECK (scheduled_at >= '1970-01-01 00:00:00+00' AND scheduled_at < '10000-01-01 00:00:00+00'
        AND scheduled_at = date_bin('1 ms', scheduled_at, '1970-01-01 00:00:00+00')),
    created_at   timestamptz NOT NULL,
    -- Stands for the request with which the event was created; NULL if that had no Idempotency-Key.
    request_hash bytea       CHECK (length(request_hash) = 32)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.01, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX events_list ON events (world_id, scheduled_at, id) INCLUDE (number);
CREATE INDEX events_creator ON events (creator_id, number);

-- The username is kept in the row, and kept true by the database, so that a list reads one index and no users. The order
-- of the columns leaves no gaps between them. The primary key also finds the RSVPs of a user, for renaming and removal.
CREATE TABLE rsvps (
    event_number bigint      NOT NULL REFERENCES events (number) ON DELETE CASCADE,
    created_at   timestamptz NOT NULL,
    user_number  integer     NOT NULL,
    username     text        COLLATE "C" NOT NULL,
    PRIMARY KEY (user_number, event_number),
    FOREIGN KEY (user_number, username) REFERENCES users (number, username) ON UPDATE CASCADE ON DELETE CASCADE
) WITH (autovacuum_vacuum_insert_scale_factor = 0.01, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX rsvps_list ON rsvps (event_number, created_at, user_number) INCLUDE (username);

-- Which transactions have changed the lists of a world: one mark for each. A list that a snapshot saw is current as long as no mark
-- of its world lies outside of that snapshot. Triggers write the marks, so that whoever changes a row by hand leaves one, too.
-- After a crash, and on a standby that is promoted, both tables are empty.
CREATE UNLOGGED TABLE changes (
    world_id text COLLATE "C" NOT NULL,
    xid      xid8 NOT NULL DEFAULT pg_current_xact_id(),
    PRIMARY KEY (world_id, xid)
);
CREATE INDEX changes_xid ON changes (xid);

-- One row, as long as the marks are all there: what is compared with snapshots of before has another id.
CREATE UNLOGGED TABLE incarnation (
    one        boolean     PRIMARY KEY DEFAULT true CHECK (one),
    id         uuid        NOT NULL DEFAULT gen_random_uuid(),
    -- Marks of transactions before horizon may be deleted, and those before pruned are. A snapshot that began before horizon
    -- can be compared with nothing. Each horizon has been next for a while, but the first: a prepared transaction outlives a crash,
    -- which its marks do not, so nothing counts that saw it running.
    horizon    xid8        NOT NULL DEFAULT pg_snapshot_xmax(pg_current_snapshot()),
    pruned     xid8        NOT NULL DEFAULT '0',
    next       xid8        NOT NULL DEFAULT pg_snapshot_xmax(pg_current_snapshot()),
    next_since timestamptz NOT NULL DEFAULT now()
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
DROP FUNCTION mark_event;
DROP FUNCTION mark_join;
DROP FUNCTION mark_leave;
DROP FUNCTION mark_events;
DROP FUNCTION mark_rsvps;
DROP FUNCTION await_rsvps;
