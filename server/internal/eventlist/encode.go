package eventlist

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"time"

	"worldevents/gen"
	"worldevents/models"
)

// maxPooled is the largest buffer kept for another list, in bytes. The others are left to the collector.
const maxPooled = 2 * maxHeld

// records is a list as it comes from the store; it is the store's models.EventSink. It becomes JSON once somebody needs
// that: a client that has the list already gets 304 without.
//
// A record is its kind and its texts, each after its length. An event is its id, time, name and description.
type records struct {
	bytes []byte
	// growing is where the text of the last record begins, if more usernames may be added to it; else 0.
	growing int
	large   bool // from recordsPool
}

const (
	eventRecord     = 'e'
	usernamesRecord = 'u'
	// maxGrowing is the length, in bytes, from which on usernames begin another record: a record is encoded at once.
	maxGrowing = 8 << 10
)

// Whoever needs little does not get a large buffer: it may hold it while it waits.
var recordsPool, smallRecordsPool = sync.Pool{New: func() any { return new(records) }}, sync.Pool{New: func() any { return new(records) }}

func newRecords(large bool) *records {
	pool := &smallRecordsPool
	if large {
		pool = &recordsPool
	}
	r := pool.Get().(*records)
	r.reset()
	r.large = large
	return r
}

func (r *records) reset() { r.bytes, r.growing = r.bytes[:0], 0 }

// release keeps the buffer for another list.
func (r *records) release() {
	switch {
	case r.large && cap(r.bytes) <= maxPooled:
		recordsPool.Put(r)
	case cap(r.bytes) <= maxOwn:
		smallRecordsPool.Put(r)
	}
}

// Size implements models.EventSink.
func (r *records) Size() int { return len(r.bytes) }

// Truncate implements models.EventSink. It also ends the record that is growing, whose length may be that of more than is
// left: each try of a batch begins a record of its own.
func (r *records) Truncate(size int) {
	r.bytes = r.bytes[:size]
	if r.growing <= size {
		r.setLength()
	}
	r.growing = 0
}

// Event implements models.EventSink.
func (r *records) Event(id models.ID, name, description []byte, scheduledAt time.Time) {
	r.growing = 0
	b := append(r.bytes, eventRecord)
	b = append(b, id[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(scheduledAt.UnixMilli()))
	b = appendText(b, name)
	r.bytes = appendText(b, description)
}

// Usernames implements models.EventSink.
func (r *records) Usernames(text []byte) {
	for len(text) > maxGrowing {
		end := bytes.IndexByte(text[maxGrowing:], '\n')
		if end < 0 {
			break
		}
		end += maxGrowing
		r.usernames(text[:end])
		text = text[end+1:]
	}
	r.usernames(text)
}

func (r *records) usernames(text []byte) {
	if r.growing > 0 && len(r.bytes)-r.growing < maxGrowing {
		r.bytes = append(append(r.bytes, '\n'), text...)
	} else {
		r.bytes = append(r.bytes, usernamesRecord, 0, 0, 0, 0)
		r.growing = len(r.bytes)
		r.bytes = append(r.bytes, text...)
	}
	r.setLength()
}

// setLength writes the length of the record that is growing.
func (r *records) setLength() {
	if r.growing > 0 {
		binary.LittleEndian.PutUint32(r.bytes[r.growing-4:], uint32(len(r.bytes)-r.growing))
	}
}

func appendText(b, text []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(text))), text...)
}

// hints returns the hints of a world and of the events in r.
func (r *records) hints(world string) []models.Hint {
	hints := []models.Hint{models.WorldHint(world)}
	for in := r.bytes; len(in) > 0; {
		kind := in[0]
		in = in[1:]
		texts := 1
		if kind == eventRecord {
			hints = append(hints, models.EventHint(models.ID(in)))
			in, texts = in[len(models.ID{})+8:], 2
		}
		for range texts {
			in = in[4+binary.LittleEndian.Uint32(in):]
		}
	}
	return hints
}

// encoder makes gen.EventList of records, without a value for each event and RSVP.
type encoder struct {
	out []byte // encoded, not written yet
	// Where the encoding stands: inside the list, inside an event, and whether that has RSVPs already.
	begun, inEvent, hasRSVPs bool
	large                    bool // from encoderPool
}

// As for records: a response may hold the buffer of its encoder for long.
var encoderPool, smallEncoderPool = sync.Pool{New: func() any { return new(encoder) }}, sync.Pool{New: func() any { return new(encoder) }}

func newEncoder(large bool) *encoder {
	pool := &smallEncoderPool
	if large {
		pool = &encoderPool
	}
	e := pool.Get().(*encoder)
	*e = encoder{out: e.out[:0], large: large}
	return e
}

// release keeps the buffer for another list.
func (e *encoder) release() {
	switch {
	case e.large && cap(e.out) <= maxPooled:
		encoderPool.Put(e)
	case cap(e.out) <= maxOwn:
		smallEncoderPool.Put(e)
	}
}

const (
	maxInt = math.MaxInt
	// maxChunk is how long a chunk becomes, in bytes, unless much is escaped: its last record begins before chunkSize,
	// and has a description of 5,000 code points or usernames.
	maxChunk = chunkSize + 28<<10
)

// encode encodes records until out has size bytes, and returns those that are left.
func (e *encoder) encode(in []byte, size int) (rest []byte) {
	need := maxChunk
	if len(in) < chunkSize {
		need = min(need, 4<<10+len(in)+len(rsvpSeparator)*bytes.Count(in, lineFeed)) // nearly always enough
	}
	b := slices.Grow(e.out, need)
	text := func() (s []byte) {
		n := 4 + binary.LittleEndian.Uint32(in)
		s, in = in[4:n], in[n:]
		return s
	}
	if !e.begun {
		b = append(b, `{"events":[`...)
		e.begun = true
	}
	for len(in) > 0 && len(b) < size {
		kind := in[0]
		in = in[1:]
		if kind == usernamesRecord {
			b = appendRSVPs(b, text(), e.hasRSVPs)
			e.hasRSVPs = true
			continue
		}
		if e.inEvent {
			b = append(b, "]},"...)
		}
		e.inEvent, e.hasRSVPs = true, false
		b = append(b, `{"id":"`...)
		b, _ = models.ID(in).AppendText(b)
		in = in[len(models.ID{}):]
		at := time.UnixMilli(int64(binary.LittleEndian.Uint64(in)))
		in = in[8:]
		b = append(b, `","name":`...)
		b = appendString(b, text())
		b = append(b, `,"description":`...)
		b = appendString(b, text())
		b = append(b, `,"scheduledAt":"`...)
		b, _ = gen.DateTime(at).AppendText(b)
		b = append(b, `","RSVPs":[`...)
	}
	e.out = b
	return in
}

// end ends the list.
func (e *encoder) end() {
	if e.inEvent {
		e.out = append(e.out, "]}"...)
	}
	e.out = append(e.out, "]}"...)
}

var lineFeed = []byte{'\n'}

// rsvpSeparator is the JSON between two usernames.
const rsvpSeparator = `"}},{"user":{"username":"`

// appendRSVPs writes usernames, which line feeds separate, as RSVPs. A large world is little else, so the names are
// looked at once, all together, and nearly always copied as they are.
func appendRSVPs(b, usernames []byte, more bool) []byte {
	const begin, end = `{"user":{"username":"`, `"}}`
	if more {
		b = append(b, ',')
	}
	plain := needsNoEscape(usernames)
	b = append(b, begin...)
	for {
		next := bytes.IndexByte(usernames, '\n')
		name := usernames
		if next >= 0 {
			name = usernames[:next]
		}
		if plain {
			b = append(b, name...)
		} else {
			quoted := appendString(b[:len(b)-1], name) // its own quotes in the place of ours
			b = quoted[:len(quoted)-1]
		}
		if next < 0 {
			return append(b, end...)
		}
		b = append(b, rsvpSeparator...)
		usernames = usernames[next+1:]
	}
}
