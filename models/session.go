package models

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// Session begins with a sign-in. It has at most one current refresh token. The row has only hashes of tokens, so that a reader of the
// database, or of a backup, cannot sign in.
type Session struct {
	ID     ID `gorm:"primaryKey;not null"` // the JWT's sid, which is no secret
	UserID ID `gorm:"not null"`
	// HandleHash is the hash of the handle, with which all refresh tokens of the session begin. It finds the row of a spent token.
	HandleHash Hash      `gorm:"not null"`
	CreatedAt  time.Time `gorm:"not null"`
	Device     string    `gorm:"not null"` // helps the user to recognize the session, as Network does
	Network    string    `gorm:"not null"`
	// ProviderSID is the identity provider's session (the claim sid) in which this one began; nil without one.
	ProviderSID *string    `gorm:"column:provider_sid"`
	RevokedAt   *time.Time // its JWTs ended then, too
	RefreshedAt time.Time  `gorm:"not null"`
	ExpiresAt   time.Time  `gorm:"not null"`
	TokenHash   *Hash      // of the current refresh token; nil after a revocation or a newer sign-in
	// Spent are the refresh tokens that were replaced last; see spentAt.
	Spent []byte `gorm:"not null"`
}

// SessionPolicy limits sessions.
type SessionPolicy struct {
	TTL    time.Duration // of a refresh token
	MaxAge time.Duration // of a session, however often it is refreshed; 0 sets no limit
	// ReuseLeeway is how long a token that was just replaced may come back without harm, as from two tabs or a repeated request.
	ReuseLeeway time.Duration
	PerUser     int // how many a user may have, at least 1
}

// TokenTTL is the lifetime of a JWT. The row of a session outlives the last of its JWTs.
const TokenTTL = 15 * time.Minute

// Hash is a SHA-256.
type Hash [32]byte

func (h Hash) Value() (driver.Value, error) { return h[:], nil }

func (h *Hash) Scan(value any) error {
	if b, ok := value.([]byte); ok && len(b) == len(h) {
		copy(h[:], b)
		return nil
	}
	return fmt.Errorf("scan %T: not a SHA-256", value)
}

// BytesValue implements pgtype.BytesValuer: PostgreSQL takes the 32 bytes.
func (h Hash) BytesValue() ([]byte, error) { return h[:], nil }

// GormDataType is the type of a hash's column.
func (Hash) GormDataType() string { return "bytes" }

// RefreshToken has the hashes of a refresh token: of its handle, with which all tokens of a session begin, and of the whole.
type RefreshToken struct{ Handle, Token Hash }

// SignIn is a new session: its first refresh token, and what the user will recognize it by.
type SignIn struct {
	RefreshToken
	Device, Network string
	ProviderSID     string         // of the identity provider, 1 to 255 ASCII characters; "" without one
	Replaces        []RefreshToken // the browser's tokens until now, current or spent
}

// Grant is a session with a new refresh token.
type Grant struct {
	Identity
	SessionID ID
	Ends      time.Time // of the session, however often it is refreshed; zero means never
}

// begin stores a session of the user, whose row tx has locked. Earlier sessions of the same browser lose their refresh token, and so do
// sessions beyond the limit: first the expired ones, then those refreshed longest ago. Their JWTs stay valid. It returns ErrBlocked.
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
		[]byte{}, user.ID, s.isFresh(), s.options.Sessions.PerUser-1)
	if res.Error != nil {
		return Grant{}, res.Error
	}
	grant := Grant{Identity: Identity{user.ID, user.Username}, SessionID: newID()}
	var created time.Time
	err := scan(tx.Raw(`
		INSERT INTO sessions (id, user_id, handle_hash, created_at, device, network, provider_sid, refreshed_at, expires_at, token_hash, spent)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING created_at`,
		grant.SessionID, user.ID, in.Handle, now, in.Device, in.Network, sql.NullString{String: in.ProviderSID, Valid: in.ProviderSID != ""},
		now, s.after(s.options.Sessions.TTL), in.Token, []byte{}), &created)
	grant.Ends = s.ends(created)
	return grant, err
}

// isFresh is the condition that a session has not expired. With a MaxAge it must live for a second more: a JWT counts in whole seconds, and
// could otherwise be expired from the start.
func (s *Store) isFresh() clause.Expr {
	if s.options.Sessions.MaxAge == 0 {
		return gorm.Expr("expires_at > ?", s.timestamp())
	}
	return gorm.Expr("expires_at > ? AND created_at >= ?", s.timestamp(), s.after(time.Second-s.options.Sessions.MaxAge))
}

// ends is the end of a session that was created at a time; zero means never.
func (s *Store) ends(created time.Time) time.Time {
	if s.options.Sessions.MaxAge == 0 {
		return time.Time{}
	}
	return created.Add(s.options.Sessions.MaxAge)
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

// FindSessions returns the callers whose current refresh tokens are among these, in the order of the tokens, and spends none. It is one
// statement, however many tokens a client sends.
func (s *Store) FindSessions(ctx context.Context, tokens []RefreshToken) (found []Caller, err error) {
	if len(tokens) == 0 {
		return nil, nil
	}
	var sessions []Session
	err = s.read(ctx, func(tx *gorm.DB) error {
		return tx.Select("id", "user_id", "handle_hash", "token_hash").
			Where("handle_hash IN ? AND token_hash IS NOT NULL AND ?", handles(tokens), s.isFresh()).Find(&sessions).Error
	})
	if err != nil {
		return nil, fmt.Errorf("find sessions: %w", err)
	}
	for _, token := range tokens {
		for _, session := range sessions {
			if session.HandleHash == token.Handle && *session.TokenHash == token.Token {
				found = append(found, Caller{session.UserID, session.ID})
			}
		}
	}
	return found, nil
}

// Sessions returns the sessions of a user that can still be refreshed, the one refreshed last first.
func (s *Store) Sessions(ctx context.Context, user ID) ([]Session, error) {
	var sessions []Session
	err := s.read(ctx, func(tx *gorm.DB) error {
		return tx.Where("user_id = ? AND token_hash IS NOT NULL AND ?", user, s.isFresh()).
			Order("refreshed_at DESC, id DESC").Find(&sessions).Error
	})
	for i, session := range sessions {
		if ends := s.ends(session.CreatedAt); !ends.IsZero() && ends.Before(session.ExpiresAt) {
			sessions[i].ExpiresAt = ends
		}
	}
	return sessions, wrap(err, "list sessions")
}
