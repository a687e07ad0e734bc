package models

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// RevokeTokens revokes the session of each refresh token, current or spent, and returns the sessions that it revoked. known reports whether
// any of the tokens belongs to a session, even one that was revoked before.
func (s *Store) RevokeTokens(ctx context.Context, tokens []RefreshToken) (revoked []Caller, known bool, err error) {
	var found []Session
	err = s.read(ctx, func(tx *gorm.DB) error {
		return tx.Select("id", "user_id", "revoked_at").Where("handle_hash IN ?", handles(tokens)).Find(&found).Error
	})
	if err != nil {
		return nil, false, fmt.Errorf("find sessions: %w", err)
	}
	known = len(found) > 0
	found = slices.DeleteFunc(found, func(session Session) bool { return session.RevokedAt != nil })
	slices.SortFunc(found, func(a, b Session) int { return bytes.Compare(a.UserID[:], b.UserID[:]) })
	for len(found) > 0 && err == nil { // one user after the other
		user, ids, mine := found[0].UserID, []ID(nil), []Caller(nil)
		for len(found) > 0 && found[0].UserID == user {
			ids, found = append(ids, found[0].ID), found[1:]
		}
		mine, err = s.revoke(ctx, idOf(user), "id IN ?", ids)
		revoked = append(revoked, mine...)
	}
	return revoked, known, err
}

func handles(tokens []RefreshToken) []Hash {
	hashes := make([]Hash, len(tokens))
	for i, token := range tokens {
		hashes[i] = token.Handle
	}
	return hashes
}

// RevokeSession revokes a session of the caller's user, or of anybody if UserID is zero.
func (s *Store) RevokeSession(ctx context.Context, session Caller) ([]Caller, error) {
	return s.revoke(ctx, idOf(cmp.Or(session.UserID, session.SessionID)), "id = ? AND ?", session.SessionID, session.belongsTo())
}

// RevokeExternal revokes sessions of a user of an identity provider (OpenID Connect Back-Channel Logout 1.0). A providerSID selects the
// sessions that began with that session of the provider, which has ended. A subject alone selects the sessions of a user that began before
// a time. The caller gives one of them or both.
func (s *Store) RevokeExternal(ctx context.Context, issuer, subject, providerSID string, before time.Time) ([]Caller, error) {
	id := externalID(issuer, cmp.Or(subject, providerSID))
	switch {
	case providerSID == "":
		return s.revoke(ctx, id, "created_at < ? AND user_id = (SELECT id FROM users WHERE issuer = ? AND subject = ?)", before.UTC(), issuer, subject)
	case subject == "":
		return s.revoke(ctx, id, "provider_sid = ? AND EXISTS (SELECT 1 FROM users WHERE id = user_id AND issuer = ?)", providerSID, issuer)
	}
	return s.revoke(ctx, id, "provider_sid = ? AND user_id = (SELECT id FROM users WHERE issuer = ? AND subject = ?)", providerSID, issuer, subject)
}

// RevokeUser revokes all sessions of a user except one, which may be zero.
func (s *Store) RevokeUser(ctx context.Context, user, except ID) ([]Caller, error) {
	return s.revoke(ctx, idOf(user), "user_id = ? AND id <> ?", user, except)
}

// revoke revokes the sessions that a condition selects, and returns those that were not revoked before. Their refresh tokens and JWTs end
// at once. id stands for the user, whose rows may be locked.
func (s *Store) revoke(ctx context.Context, id, condition string, args ...any) ([]Caller, error) {
	var revoked []Session
	err := s.locking(ctx, id, func(tx *gorm.DB) error {
		revoked = nil
		return tx.Model(&revoked).Clauses(clause.Returning{Columns: []clause.Column{{Name: "id"}, {Name: "user_id"}}}).
			Where("revoked_at IS NULL").Where(condition, args...).Updates(s.revocation()).Error
	})
	callers := make([]Caller, len(revoked))
	for i, session := range revoked {
		callers[i] = Caller{session.UserID, session.ID}
	}
	return callers, wrap(err, "revoke sessions")
}

// revocation is the change of a revoked session's row.
func (s *Store) revocation() map[string]any {
	return map[string]any{"revoked_at": gorm.Expr("?", s.timestamp()), "token_hash": nil, "spent": []byte{}}
}

const batchOfSessions = 1000 // that one statement revokes or looks at

// RevokeAll revokes all sessions, and returns their number.
func (s *Store) RevokeAll(ctx context.Context) (revoked int64, err error) {
	for after, last := (ID{}), (ID{}); err == nil; after = last {
		if last, err = s.endOfBatch(ctx, after); err != nil || last.IsZero() {
			break
		}
		err = s.write(ctx, func(tx *gorm.DB) error {
			res := tx.Model(&Session{}).Where("revoked_at IS NULL AND id > ? AND id <= ?", after, last).Updates(s.revocation())
			revoked += res.RowsAffected
			return res.Error
		})
		err = cmp.Or(err, ctx.Err())
	}
	return revoked, wrap(err, "revoke all sessions")
}

// endOfBatch returns the last id of the next batch, or zero when there is none.
func (s *Store) endOfBatch(ctx context.Context, after ID) (last ID, err error) {
	err = s.read(ctx, func(tx *gorm.DB) error {
		return scan(tx.Raw(`
			SELECT id FROM (SELECT id FROM sessions WHERE id > ? ORDER BY id LIMIT ?) batch ORDER BY id DESC LIMIT 1`,
			after, batchOfSessions), &last)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return ID{}, nil
	}
	return last, err
}
