package models

import (
	"errors"
	"fmt"

	"worldevents/models/internal/dberr"
)

// What a caller can act on. Every error of a Store wraps one of these, or none when it is unforeseen.
var (
	// ErrNoEvent is returned for an event that does not exist, malformed ids included.
	ErrNoEvent = errors.New("no such event")
	// ErrNoUser is returned when the named user does not exist.
	ErrNoUser = errors.New("no such user")
	// ErrBlocked is returned when somebody signs in whom the operator has blocked.
	ErrBlocked = errors.New("the user is blocked")
	// ErrNoIdentity is returned by RemoveUser when an identity is to be blocked that the user does not have.
	ErrNoIdentity = errors.New("the user has never signed in with an identity provider, so no identity can be blocked")
	// ErrSignedOut is returned to a caller whose session is revoked, or whose user is blocked or does not exist.
	ErrSignedOut = errors.New("the session is revoked, or its user is blocked or gone")
	// ErrUserExists is returned by AddUser and RenameUser for a name that is taken.
	ErrUserExists = errors.New("the username is taken")
	// ErrUserAlike is returned by RenameUser for a user of an identity provider, whose name must look like nobody's.
	ErrUserAlike = errors.New("the username looks like another user's")
	// ErrUsername is returned for a name that breaks the rules of ValidUsername.
	ErrUsername = errors.New("a username is 1 to 100 characters, not only white space, without control characters")
	// ErrRefreshToken is returned by RefreshSession for a token that is unknown, expired, spent, or another session's.
	ErrRefreshToken = errors.New("invalid refresh token")
	// ErrReused is the ErrRefreshToken of a spent token used after the leeway: somebody holds a copy, and the session has
	// just been revoked (RFC 9700 section 4.14.2).
	ErrReused = fmt.Errorf("%w: spent token used again, session revoked", ErrRefreshToken)
)

// What a database may be in the way of any call.
var (
	// ErrBusy means that no connection came free in time, that other processes kept SQLite's write lock, or that the transaction
	// collided with others each time that it was tried. Nothing of it has happened.
	ErrBusy = dberr.ErrBusy
	// ErrTimeout means that the work was not done within the store's timeout. A write may or may not have happened.
	ErrTimeout = dberr.ErrTimeout
	// ErrUnavailable means that the database is away, starting, stopping or read-only.
	ErrUnavailable = dberr.ErrUnavailable
	// ErrUnreachable is the ErrUnavailable of a database to which no connection could be made. Nothing of the call has happened.
	ErrUnreachable = dberr.ErrUnreachable
	// ErrUnwritable is the ErrUnavailable of a SQLite file that takes no writes. The store finds out by itself when it does again.
	ErrUnwritable = dberr.ErrUnwritable
)
