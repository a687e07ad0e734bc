-- +goose Up
-- See migrations/postgres for what the columns mean.
ALTER TABLE users ADD COLUMN issuer TEXT;
ALTER TABLE users ADD COLUMN subject TEXT CHECK ((issuer IS NULL) = (subject IS NULL));
CREATE UNIQUE INDEX users_identity ON users (issuer, subject);

-- +goose Down
DROP INDEX users_identity;
ALTER TABLE users DROP COLUMN subject;
ALTER TABLE users DROP COLUMN issuer;
