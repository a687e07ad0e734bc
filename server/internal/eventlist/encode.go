package eventlist

import (
	"bytes"
	"fmt"
	"sync"

	"worldevents/gen"
	"worldevents/models"
)

// encoder makes the JSON of gen.EventList as a list comes from the store, without a value for each event and RSVP: it is the
// store's models.EventSink.
type encoder struct {
	out    []byte
	room   *room
	events int
	err    error // why no more events are wanted
}

// maxPooled is the largest buffer kept for another list, in bytes. The others are left to the collector.
const maxPooled = 2 << 20

var encoderPool = sync.Pool{New: func() any { return new(encoder) }}

func newEncoder(r *room) *encoder {
	e := encoderPool.Get().(*encoder)
	*e = encoder{out: e.out[:0], room: r}
	return e
}

// list ends the list and returns it. The encoder must not be used any more.
func (e *encoder) list() []byte {
	list := append(e.out, "]}"...)
	if cap(list) > maxPooled {
		return list
	}
	defer e.release()
	return bytes.Clone(list)
}

// release keeps the buffer for another list.
func (e *encoder) release() {
	if cap(e.out) <= maxPooled {
		e.room = nil
		encoderPool.Put(e)
	}
}

// Begin implements models.EventSink.
func (e *encoder) Begin() {
	e.out, e.events, e.err = append(e.out[:0], `{"events":[`...), 0, nil
}

// These are the bytes of JSON around the texts of an event with the end of the list, and around a username with its comma.
const (
	eventSize = len(`{"id":"00000000-0000-0000-0000-000000000000","name":"","description":"","scheduledAt":"2006-01-02T15:04:05.000Z","RSVPs":[]}]}`)
	rsvpSize  = len(`{"user":{"username":""}},`)
)

// Event implements models.EventSink. It wants no more after ErrTooLong, or if the list takes more memory than there is room for.
func (e *encoder) Event(v *models.ListedEvent) (more bool) {
	names := 0
	if len(v.Usernames) > 0 {
		names = 1 + bytes.Count(v.Usernames, lineFeed)
	}
	size := len(e.out) + eventSize + len(v.Name) + len(v.Description) + len(v.Usernames) + max(0, names*(rsvpSize-1)) // or more, with escapes
	switch {
	case v.TooMany || size > maxList:
		e.err = ErrTooLong
		return false
	case !e.room.hold(size + len(v.Usernames)):
		e.err = fmt.Errorf("%w: no room for the list", models.ErrBusy)
		return false
	}
	b := e.out
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
	e.out = append(b, "]}"...)
	if len(e.out)+len("]}") > maxList {
		e.err = ErrTooLong
		return false
	}
	e.events++
	return true
}

var lineFeed = []byte{'\n'}

// appendUsernames writes RSVPs. A large world is little else.
func appendUsernames(b, names []byte) []byte {
	const begin, between, end = `{"user":{"username":"`, `"}},{"user":{"username":"`, `"}}`
	b = append(b, begin...)
	for {
		n := plainPrefix(names)
		if n < len(names) && names[n] != '\n' {
			if n = bytes.IndexByte(names, '\n'); n < 0 {
				n = len(names)
			}
			b = appendString(b[:len(b)-1], names[:n]) // its own quotes in the place of ours
			b = b[:len(b)-1]
		} else {
			b = append(b, names[:n]...)
		}
		if n == len(names) {
			return append(b, end...)
		}
		b = append(b, between...)
		names = names[n+1:]
	}
}
