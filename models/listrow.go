package models

import (
	"bytes"
	"time"
)

// listRow is a row of a batch: an event, or the next RSVPs of one. It is valid until the next row.
type listRow struct {
	id ID
	at time.Time // scheduled
	// The texts of an event are its name, its description, and its first usernames, at most one more than largeRSVPs. Those of RSVPs
	// are their usernames, the position of the last one as rsvpState has it, and when the event's last user has joined.
	texts [4][]byte
}

var lineFeed = []byte{'\n'}

// countNames returns how many usernames there are, with line feeds between them. Counting takes the database longer.
func countNames(usernames []byte) int {
	if len(usernames) == 0 {
		return 0
	}
	return 1 + bytes.Count(usernames, lineFeed)
}
