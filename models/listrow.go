package models

import (
	"bytes"
	"time"
)

// listRow is a row of a batch: an event, or the RSVP of a user. It is valid until the next one.
type listRow struct {
	id         ID        // of an event
	userNumber int32     // of an RSVP
	at         time.Time // scheduled, or joined
	// The texts of an event: its name, description, and first usernames, at most one more than largeRSVPs. An RSVP has
	// a username alone, as name.
	name, description, usernames []byte
}

// rsvpColumns tells a query of RSVPs from those of events: the user's number, the time of joining, and the username.
const rsvpColumns = 3

// key is where the first of so many columns is read into.
func (r *listRow) key(columns int) any {
	if columns == rsvpColumns {
		return &r.userNumber
	}
	return &r.id
}

// hasMore reports whether the event has more RSVPs than limit. Counting takes the database longer.
func (r *listRow) hasMore(limit int) bool { return bytes.Count(r.usernames, lineFeed) >= limit }

// size returns how many bytes of text the event adds to a batch: the usernames of a large one are read by themselves.
func (r *listRow) size(large bool) int {
	n := len(r.name) + len(r.description)
	if !large {
		n += len(r.usernames)
	}
	return n
}

var lineFeed = []byte{'\n'}
