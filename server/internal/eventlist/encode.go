package eventlist

import (
	"bytes"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"worldevents/gen"
	"worldevents/models"
)

// encoder is the models.EventSink that makes the JSON of gen.EventList, without a value for each event and RSVP.
type encoder struct {
	// parts are joined once the length of the list is known: a growing buffer would copy a long list many times.
	parts  [][]byte
	size   int // of parts, in bytes
	room   *room
	events int
	err    error // the reason to end
}

// partSize is the capacity of a part, unless one event needs more, in bytes.
const partSize = 128 << 10

var partPool = sync.Pool{New: func() any { return new([partSize]byte) }}

// part returns a part with room for n more bytes.
func (e *encoder) part(n int) []byte {
	if last := len(e.parts) - 1; last >= 0 && cap(e.parts[last])-len(e.parts[last]) >= n {
		return e.parts[last]
	}
	var b []byte
	if n > partSize {
		b = make([]byte, 0, n)
	} else {
		b = partPool.Get().(*[partSize]byte)[:0]
	}
	e.parts = append(e.parts, b)
	return b
}

// keep replaces the last part by b, the result of part with additions.
func (e *encoder) keep(b []byte) {
	last := &e.parts[len(e.parts)-1]
	e.size += len(b) - len(*last)
	*last = b
}

func (e *encoder) list() []byte {
	const end = "]}"
	list := make([]byte, 0, e.size+len(end))
	for _, b := range e.parts {
		list = append(list, b...)
	}
	return append(list, end...)
}

// release puts the parts into the pool; list does not refer to them.
func (e *encoder) release() {
	for _, b := range e.parts {
		if cap(b) == partSize {
			partPool.Put((*[partSize]byte)(b[:partSize]))
		}
	}
	e.parts, e.size = nil, 0
}

// Begin implements models.EventSink.
func (e *encoder) Begin() {
	e.release()
	e.events, e.err = 0, nil
	const begin = `{"events":[`
	e.keep(append(e.part(len(begin)), begin...))
}

// The bytes of JSON around the texts of an event, with the end of the list, and around a username, with its comma.
const (
	eventSize = len(`{"id":"00000000-0000-0000-0000-000000000000","name":"","description":"","scheduledAt":"2006-01-02T15:04:05.000Z","RSVPs":[]}]}`)
	rsvpSize  = len(`{"user":{"username":""}},`)
)

// Event implements models.EventSink. It ends with ErrTooLong, or with ErrNoRoom.
func (e *encoder) Event(v *models.ListedEvent) (more bool) {
	names := 0
	if len(v.Usernames) > 0 {
		names = 1 + bytes.Count(v.Usernames, lineFeed)
	}
	n := eventSize + len(v.Name) + len(v.Description) + len(v.Usernames) + max(0, names*(rsvpSize-1)) // or more, with escapes
	switch {
	case v.TooMany || e.size+n > maxList:
		e.err = ErrTooLong
		return false
	case !e.room.hold(e.size + n + len(v.Usernames)):
		e.err = ErrNoRoom
		return false
	}
	b := e.part(n)
	if e.events > 0 {
		b = append(b, ',')
	}
	b = append(b, `{"id":"`...)
	b, _ = v.ID.AppendText(b)
	b = append(b, `","name":`...)
	b = appendString(b, v.Name)
	b = append(b, `,"description":`...)
	b = appendString(b, v.Description)
	b = append(b, `,"scheduledAt":"`...)
	b, _ = gen.DateTime(v.ScheduledAt).AppendText(b)
	b = append(b, `","RSVPs":[`...)
	if names > 0 {
		b = appendUsernames(b, v.Usernames)
	}
	e.keep(append(b, "]}"...))
	if e.size+len("]}") > maxList {
		e.err = ErrTooLong
		return false
	}
	e.events++
	return true
}

var lineFeed = []byte{'\n'}

// appendUsernames writes RSVPs, most of a large list.
func appendUsernames(b, names []byte) []byte {
	for name := range bytes.SplitSeq(names, lineFeed) {
		b = append(b, `{"user":{"username":`...)
		b = appendString(b, name)
		b = append(b, "}},"...)
	}
	return b[:len(b)-1]
}

// appendString writes a JSON string. Invalid UTF-8, written by hand, becomes U+FFFD.
func appendString(b, s []byte) []byte {
	b, _ = jsontext.AppendQuote(b, s)
	return b
}
