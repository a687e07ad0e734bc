package models

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"worldevents/models/internal/batch"
)

const (
	// A spent token is kept as spentHash bytes of its hash and spentTime bytes of the time. A session keeps the last 16. They are small
	// because each refresh rewrites them all, also in the write-ahead log. Six bytes of a hash are enough: a made-up token with the same
	// six is refused all the same, and at worst does not revoke the session.
	spentHash  = 6
	spentTime  = 6
	spentBytes = spentHash + spentTime
)

// RefreshSession replaces the refresh token old, which is spent then, by next. A caller other than zero must own old.
//
// One conditional UPDATE decides: of any concurrent calls with the same old, on any instances, exactly one finds the row with this token
// and succeeds. The others get ErrRefreshToken and change nothing.
//
// A token that was spent ReuseLeeway or longer ago, or more than 16 refreshes ago, shows that somebody has a copy. RefreshSession then
// revokes the session, and returns ErrReused with it (RFC 9700 section 4.14.2).
func (s *Store) RefreshSession(ctx context.Context, caller Caller, old RefreshToken, next Hash) (Grant, error) {
	// Tokens that were spent before the leeway are dropped, because they revoke like unknown ones. So the list continues only if the last
	// refresh was within the leeway. 6 is spentHash and 192 is 16 times spentBytes; as parameters they would cost time.
	var row struct {
		Grant
		created time.Time
	}
	changed, err := s.apply(ctx, batch.Write{
		Kind: batch.Refreshes, Session: old.Handle, Into: []any{&row.SessionID, &row.ID, &row.Username, &row.created},
		Statements: []batch.Statement{s.statement(`
			UPDATE sessions SET token_hash = ?, refreshed_at = ?, expires_at = ?, spent = substr(CAST(
				substr(token_hash, 1, 6) || ? || CASE WHEN refreshed_at > ? THEN spent ELSE CAST('' AS `+s.dialect.blob+`) END
				AS `+s.dialect.blob+`), 1, 192)
			WHERE handle_hash = ? AND token_hash = ? AND ? AND ?
			RETURNING id, user_id, (SELECT username FROM users WHERE id = user_id), created_at`,
			next, s.timestamp(), s.after(s.options.Sessions.TTL), s.spentNow(), s.after(-s.options.Sessions.ReuseLeeway),
			old.Handle, old.Token, s.isFresh(), caller.belongsTo())},
	})
	var grant Grant
	switch {
	case err != nil:
	case changed:
		grant = row.Grant
		grant.Ends = s.ends(row.created)
	default:
		grant, err = s.revokeIfReused(ctx, caller, old)
	}
	return grant, wrap(err, "refresh session")
}

// revokeIfReused returns why the UPDATE changed no row: ErrRefreshToken, as a RefreshRefusal if the session is known, or ErrReused with the
// session that it revoked. A refresh between its read and its write does not matter, because a spent token stays spent.
func (s *Store) revokeIfReused(ctx context.Context, caller Caller, old RefreshToken) (revoked Grant, err error) {
	var session Session
	var now int64
	var fresh, live, replaced bool
	err = s.read(ctx, func(tx *gorm.DB) error {
		return scan(tx.Raw(`
			SELECT id, user_id, spent, revoked_at, ?, (?), token_hash IS NOT NULL, coalesce(token_hash <> ?, false)
			FROM sessions WHERE handle_hash = ? AND ?`,
			s.milliseconds(), s.isFresh(), old.Token, old.Handle, caller.belongsTo()),
			&session.ID, &session.UserID, &session.Spent, &session.RevokedAt, &now, &fresh, &live, &replaced)
	})
	refused := func(cause string) (Grant, error) {
		return Grant{}, &RefreshRefusal{Caller{session.UserID, session.ID}, cause}
	}
	spent := session.spentAt(old.Token)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Grant{}, ErrRefreshToken
	case err != nil:
		return Grant{}, err
	case session.RevokedAt != nil:
		return refused("revoked at " + session.RevokedAt.UTC().Format(time.RFC3339))
	case !live:
		return refused("ended by a newer sign-in")
	case !fresh:
		return refused("expired")
	case !replaced:
		return refused("unknown")
	case spent > now-s.options.Sessions.ReuseLeeway.Milliseconds(): // a second tab lost the race
		return refused(fmt.Sprintf("spent %d seconds ago", (now-spent)/1000))
	}
	err = s.locking(ctx, idOf(session.UserID), func(tx *gorm.DB) error {
		return scan(tx.Raw(`
			UPDATE sessions SET revoked_at = ?, token_hash = NULL, spent = ? WHERE id = ? AND token_hash IS NOT NULL
			RETURNING id, user_id, (SELECT username FROM users WHERE id = user_id)`,
			s.timestamp(), []byte{}, session.ID), &revoked.SessionID, &revoked.ID, &revoked.Username)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return refused("revoked meanwhile")
	case err != nil:
		return Grant{}, err
	}
	return revoked, ErrReused
}

// spentAt is when a token was spent, in milliseconds since 1970; 0 if that is not known.
func (s *Session) spentAt(token Hash) int64 {
	for spent := s.Spent; len(spent) >= spentBytes; spent = spent[spentBytes:] {
		if string(spent[:spentHash]) == string(token[:spentHash]) {
			var at [8]byte
			copy(at[8-spentTime:], spent[spentHash:spentBytes])
			return int64(binary.BigEndian.Uint64(at[:]))
		}
	}
	return 0
}

// milliseconds is the time of writing in milliseconds since 1970, as a parameter of a statement.
func (s *Store) milliseconds() any {
	if s.file != nil {
		return s.options.Now().UnixMilli()
	}
	return gorm.Expr("CAST(extract(epoch FROM ?) * 1000 AS bigint)", s.timestamp())
}

// spentNow is the time of writing as Spent keeps it: spentTime bytes, big-endian.
func (s *Store) spentNow() any {
	if s.file != nil {
		return binary.BigEndian.AppendUint64(nil, uint64(s.options.Now().UnixMilli()))[8-spentTime:]
	}
	return gorm.Expr("substr(int8send(?), 3)", s.milliseconds()) // from byte 3 on, the first being 1
}
