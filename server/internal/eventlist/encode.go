package eventlist

import (
	"bytes"
	"sync"
	"time"

	"worldevents/gen"
	"worldevents/models"
)

// encoder makes the JSON of gen.EventList as a list comes from the store, without a value for each event and RSVP: it is the
// store's models.EventSink. The last byte of what has been encoded says where the list stands: after "[" the RSVPs of an
// event begin, after "}" comes another of them.
type encoder struct {
	out  []byte // encoded, not written yet
	last byte   // of what was written before that; 0 for nothing
}

// maxPooled is the largest buffer kept for another list, in bytes. The others are left to the collector.
const maxPooled = 2 * maxHeld

var encoderPool = sync.Pool{New: func() any { return new(encoder) }}

func newEncoder() *encoder {
	e := encoderPool.Get().(*encoder)
	*e = encoder{out: e.out[:0]}
	return e
}

// release keeps the buffer for another list.
func (e *encoder) release() {
	if cap(e.out) <= maxPooled {
		encoderPool.Put(e)
	}
}

// end returns the last byte so far.
func (e *encoder) end() byte {
	if n := len(e.out); n > 0 {
		return e.out[n-1]
	}
	return e.last
}

// written says that out has been written.
func (e *encoder) written() { e.last, e.out = e.end(), e.out[:0] }

// Size implements models.EventSink.
func (e *encoder) Size() int { return len(e.out) }

// Truncate implements models.EventSink.
func (e *encoder) Truncate(size int) { e.out = e.out[:size] }

// Event implements models.EventSink.
func (e *encoder) Event(id models.ID, name, description []byte, scheduledAt time.Time) {
	b := e.out
	if e.end() == 0 {
		b = append(b, `{"events":[`...)
	} else {
		b = append(b, "]},"...)
	}
	b = append(b, `{"id":"`...)
	b, _ = id.AppendText(b)
	b = append(b, `","name":`...)
	b = appendString(b, name)
	b = append(b, `,"description":`...)
	b = appendString(b, description)
	b = append(b, `,"scheduledAt":"`...)
	b, _ = gen.DateTime(scheduledAt).AppendText(b)
	e.out = append(b, `","RSVPs":[`...)
}

// Usernames implements models.EventSink. A large world is little else.
func (e *encoder) Usernames(names []byte) {
	const begin, between, end = `{"user":{"username":"`, `"}},{"user":{"username":"`, `"}}`
	b := e.out
	if e.end() != '[' {
		b = append(b, ',')
	}
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
			e.out = append(b, end...)
			return
		}
		b = append(b, between...)
		names = names[n+1:]
	}
}

// finish ends the list.
func (e *encoder) finish() {
	if e.end() == 0 {
		e.out = append(e.out, `{"events":[`...)
	} else {
		e.out = append(e.out, "]}"...)
	}
	e.out = append(e.out, "]}"...)
}
