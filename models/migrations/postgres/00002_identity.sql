-- +goose Up
-- Who a user is at an identity provider: OpenID Connect Core 1.0 section 2 lets nothing but iss and sub together
-- identify somebody. Both are NULL for users who never signed in there. The unique key makes one user of any number
-- of concurrent first sign-ins.
ALTER TABLE users
    ADD COLUMN issuer  text COLLATE "C",
    ADD COLUMN subject text COLLATE "C",
    ADD CONSTRAINT users_identity_whole CHECK ((issuer IS NULL) = (subject IS NULL)),
    ADD CONSTRAINT users_identity UNIQUE (issuer, subject);

-- +goose Down
ALTER TABLE users DROP COLUMN issuer, DROP COLUMN subject;
