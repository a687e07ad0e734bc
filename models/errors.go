package models

import (
	"errors"
	"fmt"

	"worldevents/models/internal/dberr"
	"worldevents/models/internal/postgres"
)

// A caller can act on these. Every error of a Store wraps one of these or of the next group, or is unforeseen.
var (
	// ErrNoEvent is returned for an event that does not exist, malformed ids included.
	ErrNoEvent = errors.New("no such event")
	// ErrEdited is returned by EditOwnEvent for an event that is no longer as the caller has seen it.
	ErrEdited = errors.New("the event was edited meanwhile")
	// ErrKeyUsed is returned by CreateEvent for a key with which the user has created another event.
	ErrKeyUsed = errors.New("the idempotency key belongs to another event")
	// ErrNoUser is returned when the named user does not exist.
	ErrNoUser = errors.New("no such user")
	// ErrBlocked is returned for the sign-in of a user whom the operator has blocked.
	ErrBlocked = errors.New("the user is blocked")
	// ErrNoIdentity is returned by RemoveUser with Block for a user who has no identity to block.
	ErrNoIdentity = errors.New("the user has never signed in with an identity provider, so no identity can be blocked")
	// ErrSignedOut is returned to a caller whose session is revoked, or whose user is blocked or does not exist.
	ErrSignedOut = errors.New("the session is revoked, or its user is blocked or gone")
	// ErrUserExists is returned by AddUser and RenameUser for a name that is taken.
	ErrUserExists = errors.New("the username is taken")
	// ErrUserAlike is returned by RenameUser for a user of an identity provider, whose name must not look like another user's.
	ErrUserAlike = errors.New("the username looks like another user's")
	// ErrUsername is returned for a name that breaks the rules of names.Valid.
	ErrUsername = errors.New("a username is 1 to 100 characters, not only white space, without control characters")
	// ErrRefreshToken is returned by RefreshSession for a token that is unknown, expired, spent, or another session's.
	ErrRefreshToken = errors.New("invalid refresh token")
	// ErrReused is the ErrRefreshToken of a spent token that came back after the leeway. Two parties have it, and nobody knows which one is
	// the user, so the session has just been revoked (RFC 9700 section 4.14.2).
	ErrReused = fmt.Errorf("%w: spent token used again, session revoked", ErrRefreshToken)
)

// Any call may return these, because of the state of the database.
var (
	// ErrBusy means that no connection came free in time, that somebody kept a lock, or that the transaction collided with others at each
	// attempt. Nothing of the call has happened.
	ErrBusy = dberr.ErrBusy
	// ErrTimeout means that the work did not end within the store's timeout. A write may or may not have happened.
	ErrTimeout = dberr.ErrTimeout
	// ErrUnavailable means that the database is away, starting, stopping or read-only. A write may or may not
	// have happened, unless the error is ErrUnreachable or ErrNotWritten.
	ErrUnavailable = dberr.ErrUnavailable
	// ErrUnreachable is the ErrUnavailable of a call that got no connection. Nothing of the call has happened.
	ErrUnreachable = dberr.ErrUnreachable
	// ErrNotWritten is the ErrUnavailable of a write that the server has no room for. Nothing of the call has happened.
	ErrNotWritten = dberr.ErrNotWritten
	// ErrStatements is the ErrUnavailable of a pooler behind which a setting of the URL is missing. It is in words for the operator.
	ErrStatements = postgres.ErrStatements
	// ErrUnwritable is the ErrUnavailable of a SQLite file that takes no writes. The store notices by itself when that is over.
	ErrUnwritable = dberr.ErrUnwritable
)

// wrap puts the failed call in front of err, and returns nil for nil. Other results of the package mean nothing beside an error.
func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}

// RefreshRefusal is the ErrRefreshToken of a session that is known.
type RefreshRefusal struct {
	Caller
	Cause string // of the refusal, in words for the log
}

func (r *RefreshRefusal) Error() string { return ErrRefreshToken.Error() + ": " + r.Cause }

func (r *RefreshRefusal) Unwrap() error { return ErrRefreshToken }
