package models

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"worldevents/models/internal/batch"
)

// Session is what one sign-in began. It has at most one current refresh token. The row has only hashes of
// tokens, so that whoever reads the database, or a backup of it, cannot sign in.
type Session struct {
	ID     ID `gorm:"primaryKey;not null"` // the JWT's sid, which is no secret
	UserID ID `gorm:"not null"`
	// HandleHash is the hash of the handle, the part that all refresh tokens of the session begin with. It
	// finds the row of a spent token.
	HandleHash Hash      `gorm:"not null"`
	CreatedAt  time.Time `gorm:"not null"`
	// Device and Network help the user to recognize the session.
	Device  string `gorm:"not null"`
	Network string `gorm:"not null"`
	// ProviderSID is the identity provider's session (the claim sid) in which this one began; nil if the
	// provider named none.
	ProviderSID *string `gorm:"column:provider_sid"`
	// RevokedAt is when the session was revoked, and its JWTs ended with it.
	RevokedAt   *time.Time
	RefreshedAt time.Time `gorm:"not null"`
	ExpiresAt   time.Time `gorm:"not null"`
	// TokenHash is the hash of the current refresh token. It is nil after a revocation or a newer sign-in.
	TokenHash *Hash
	// Spent are the refresh tokens that were replaced last. wasSpentWithin reads them.
	Spent []byte `gorm:"not null"`
}

// SessionPolicy says how long sessions last, and how many a user may have.
type SessionPolicy struct {
	// TTL is the lifetime of a refresh token.
	TTL time.Duration
	// MaxAge is the lifetime of a session, however often it is refreshed; 0 sets no limit.
	MaxAge time.Duration
	// ReuseLeeway is how long a refresh token that was just replaced may come back without harm: two tabs may
	// refresh at the same time, or a browser may send a request again.
	ReuseLeeway time.Duration
	// PerUser is the number of sessions that a user may have, at least 1.
	PerUser int
}

// TokenTTL is the lifetime of a JWT. The row of a session outlives the last of its JWTs.
const TokenTTL = 15 * time.Minute

// Hash is a SHA-256.
type Hash [32]byte

// Value implements driver.Valuer. It never fails.
func (h Hash) Value() (driver.Value, error) { return h[:], nil }

// Scan implements sql.Scanner.
func (h *Hash) Scan(value any) error {
	if b, ok := value.([]byte); ok && len(b) == len(h) {
		copy(h[:], b)
		return nil
	}
	return fmt.Errorf("scan %T: not a SHA-256", value)
}

// BytesValue implements pgtype.BytesValuer: PostgreSQL takes the 32 bytes. It never fails.
func (h Hash) BytesValue() ([]byte, error) { return h[:], nil }

// GormDataType is the kind of a hash's column.
func (Hash) GormDataType() string { return "bytes" }

// RefreshToken is what the database knows of a refresh token: the hash of its handle, with which all refresh
// tokens of a session begin, and the hash of the whole.
type RefreshToken struct{ Handle, Token Hash }

// SignIn is a session that is to begin: its first refresh token, and what the user will recognize it by.
type SignIn struct {
	RefreshToken
	Device, Network string
	// ProviderSID is the session of the identity provider, 1 to 255 ASCII characters; "" if there is none.
	ProviderSID string
	// Replaces are the refresh tokens that the browser held until now, current or spent.
	Replaces []RefreshToken
}

// Grant is a session whose refresh token has just been made or replaced.
type Grant struct {
	Identity
	SessionID ID
	// Ends is when the session ends, however often it is refreshed; zero means never.
	Ends time.Time
}

// begin stores a session of the user, whose row tx has locked. Earlier sessions of the same browser lose their
// refresh token. So do sessions beyond the limit: first the expired ones, then those refreshed longest ago.
// Their JWTs stay valid until they expire. It returns ErrBlocked.
func (s *Store) begin(tx *gorm.DB, user User, in SignIn) (Grant, error) {
	if user.BlockedAt != nil {
		return Grant{}, ErrBlocked
	}
	now := s.timestamp()
	if len(in.Replaces) > 0 {
		res := tx.Exec("UPDATE sessions SET token_hash = NULL, spent = ? WHERE handle_hash IN ? AND token_hash IS NOT NULL",
			[]byte{}, handles(in.Replaces))
		if res.Error != nil {
			return Grant{}, res.Error
		}
	}
	res := tx.Exec(`
		UPDATE sessions SET token_hash = NULL, spent = ? WHERE token_hash IS NOT NULL AND id IN (
			SELECT id FROM sessions WHERE user_id = ? AND token_hash IS NOT NULL
			ORDER BY (?) DESC, refreshed_at DESC, id DESC LIMIT 1000000 OFFSET ?)`,
		[]byte{}, user.ID, s.isFresh(), s.policy.PerUser-1)
	if res.Error != nil {
		return Grant{}, res.Error
	}
	grant := Grant{Identity: Identity{user.ID, user.Username}, SessionID: newID()}
	var created time.Time
	err := scan(tx.Raw(`
		INSERT INTO sessions (id, user_id, handle_hash, created_at, device, network, provider_sid, refreshed_at, expires_at, token_hash, spent)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING created_at`,
		grant.SessionID, user.ID, in.Handle, now, in.Device, in.Network, sql.NullString{String: in.ProviderSID, Valid: in.ProviderSID != ""},
		now, s.after(s.policy.TTL), in.Token, []byte{}), &created)
	grant.Ends = s.ends(created)
	return grant, err
}

// isFresh is the condition that a session has not expired. One with a MaxAge must live for a second more: a JWT
// counts in whole seconds, and could otherwise be born expired.
func (s *Store) isFresh() clause.Expr {
	if s.policy.MaxAge == 0 {
		return gorm.Expr("expires_at > ?", s.timestamp())
	}
	return gorm.Expr("expires_at > ? AND created_at >= ?", s.timestamp(), s.after(time.Second-s.policy.MaxAge))
}

// ends is when a session ends that was created at a time; zero means never.
func (s *Store) ends(created time.Time) time.Time {
	if s.policy.MaxAge == 0 {
		return time.Time{}
	}
	return created.Add(s.policy.MaxAge)
}

// belongsTo is the condition that a session is the caller's. A zero id is not compared.
func (c Caller) belongsTo() clause.Expr {
	switch {
	case c.UserID.IsZero():
		return gorm.Expr("true")
	case c.SessionID.IsZero():
		return gorm.Expr("user_id = ?", c.UserID)
	}
	return gorm.Expr("user_id = ? AND id = ?", c.UserID, c.SessionID)
}

const (
	// A spent token is kept as spentHash bytes of its hash and spentTime bytes of the time. A session keeps the
	// last 16. They are small because all of them move with each refresh, into the write-ahead log, too. Six
	// bytes of a hash are enough: a made-up token that has the same six is refused all the same, and at worst
	// does not revoke the session.
	spentHash  = 6
	spentTime  = 6
	spentBytes = spentHash + spentTime
)

// RefreshSession replaces the refresh token old by next; old is spent then. If caller is not zero, old must be
// theirs.
//
// One conditional UPDATE decides. Of any number of concurrent calls with the same old, on any number of
// instances, exactly one finds the row with this token and succeeds. The others get ErrRefreshToken and change
// nothing.
//
// A token that was spent ReuseLeeway or longer ago, or more than 16 refreshes ago, shows that somebody holds a
// copy. It revokes the session, and RefreshSession returns ErrReused with the session (RFC 9700 section
// 4.14.2).
func (s *Store) RefreshSession(ctx context.Context, caller Caller, old RefreshToken, next Hash) (Grant, error) {
	// Tokens that were spent before the leeway began need no place, because they revoke like unknown ones. If
	// the last refresh was within the leeway the list goes on, otherwise it begins anew. 6 is spentHash and 192
	// is 16 times spentBytes; as parameters they would cost time.
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
			next, s.timestamp(), s.after(s.policy.TTL), s.spentNow(), s.after(-s.policy.ReuseLeeway),
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
	if err != nil {
		return grant, fmt.Errorf("refresh session: %w", err)
	}
	return grant, nil
}

// revokeIfReused finds out why the UPDATE changed no row. It returns ErrRefreshToken, or ErrReused with the
// session that it revoked. Between its read and its write others may refresh the session: that does not matter,
// because a spent token stays spent.
func (s *Store) revokeIfReused(ctx context.Context, caller Caller, old RefreshToken) (revoked Grant, err error) {
	var session Session
	var now int64
	err = s.read(ctx, func(tx *gorm.DB) error {
		return scan(tx.Raw(`
			SELECT id, spent, ? FROM sessions WHERE handle_hash = ? AND token_hash <> ? AND ? AND ?`,
			s.milliseconds(), old.Handle, old.Token, s.isFresh(), caller.belongsTo()),
			&session.ID, &session.Spent, &now)
	})
	if err == nil && session.wasSpentWithin(old.Token, now-s.policy.ReuseLeeway.Milliseconds()) {
		return Grant{}, ErrRefreshToken // a second tab lost the race
	}
	if err == nil {
		err = s.write(ctx, func(tx *gorm.DB) error {
			return scan(tx.Raw(`
				UPDATE sessions SET revoked_at = ?, token_hash = NULL, spent = ? WHERE id = ? AND token_hash IS NOT NULL
				RETURNING id, user_id, (SELECT username FROM users WHERE id = user_id)`,
				s.timestamp(), []byte{}, session.ID), &revoked.SessionID, &revoked.ID, &revoked.Username)
		})
	}
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Grant{}, ErrRefreshToken
	case err != nil:
		return Grant{}, err
	}
	return revoked, ErrReused
}

// wasSpentWithin reports whether the token was spent later than a time, in milliseconds since 1970.
func (s *Session) wasSpentWithin(token Hash, after int64) bool {
	for spent := s.Spent; len(spent) >= spentBytes; spent = spent[spentBytes:] {
		if string(spent[:spentHash]) == string(token[:spentHash]) {
			var at [8]byte
			copy(at[8-spentTime:], spent[spentHash:spentBytes])
			return int64(binary.BigEndian.Uint64(at[:])) > after
		}
	}
	return false
}

// milliseconds is the time of writing in milliseconds since 1970, as a parameter of a statement.
func (s *Store) milliseconds() any {
	if s.file != nil {
		return s.now().UnixMilli()
	}
	return gorm.Expr("CAST(extract(epoch FROM ?) * 1000 AS bigint)", s.timestamp())
}

// spentNow is the time of writing as Spent keeps it: spentTime bytes, big-endian.
func (s *Store) spentNow() any {
	if s.file != nil {
		return binary.BigEndian.AppendUint64(nil, uint64(s.now().UnixMilli()))[8-spentTime:]
	}
	return gorm.Expr("substr(int8send(?), 3)", s.milliseconds()) // from byte 3 on, the first being 1
}

// FindSession returns the caller whose current refresh token this is. It does not spend the token. It returns
// ErrRefreshToken.
func (s *Store) FindSession(ctx context.Context, token RefreshToken) (Caller, error) {
	var found []Caller
	err := s.read(ctx, func(tx *gorm.DB) error {
		return tx.Raw("SELECT user_id, id AS session_id FROM sessions WHERE handle_hash = ? AND token_hash = ? AND ?",
			token.Handle, token.Token, s.isFresh()).Scan(&found).Error
	})
	if err == nil && len(found) == 0 {
		err = ErrRefreshToken
	}
	if err != nil {
		return Caller{}, fmt.Errorf("find session: %w", err)
	}
	return found[0], nil
}

// Sessions returns the sessions of a user that can still be refreshed, the one refreshed last first.
func (s *Store) Sessions(ctx context.Context, user ID) ([]Session, error) {
	var sessions []Session
	err := s.read(ctx, func(tx *gorm.DB) error {
		return tx.Where("user_id = ? AND token_hash IS NOT NULL AND ?", user, s.isFresh()).
			Order("refreshed_at DESC, id DESC").Find(&sessions).Error
	})
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	for i, session := range sessions {
		if ends := s.ends(session.CreatedAt); !ends.IsZero() && ends.Before(session.ExpiresAt) {
			sessions[i].ExpiresAt = ends
		}
	}
	return sessions, nil
}
