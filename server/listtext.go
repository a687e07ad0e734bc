package server

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"worldevents/gen"
)

// listText is a list as it comes from the store, and as JSON once somebody needs that: whoever has it already is
// answered without. It is the models.ListSink of the server, and gen.EventList without a value per event and RSVP.
type listText struct {
	read []byte // records
	next int    // where those begin that have not been encoded
	json []byte // encoded, not written yet
	// What has been encoded, written parts included, ends within an event, and that within its RSVPs.
	begun, inEvent, inRSVPs bool
}

// A record is its kind and a length for each of its texts: those of an event are id, time, name and description.
const (
	eventRecord     = 'e'
	usernamesRecord = 'u'
)

// maxPooled is the largest buffer kept for another list, in bytes.
const maxPooled = 8 * maxHeld

var listTexts = sync.Pool{New: func() any { return new(listText) }}

func newListText() *listText {
	t := listTexts.Get().(*listText)
	*t = listText{read: t.read[:0], json: t.json[:0]}
	return t
}

// free keeps the buffers for another list.
func (t *listText) free() {
	if cap(t.read)+cap(t.json) <= maxPooled {
		listTexts.Put(t)
	}
}

// fork is an empty text that goes on where t has been encoded to.
func (t *listText) fork() *listText {
	f := newListText()
	f.begun, f.inEvent, f.inRSVPs = t.begun, t.inEvent, t.inRSVPs
	return f
}

func (t *listText) Size() int { return len(t.read) }

func (t *listText) Truncate(size int) { t.read = t.read[:size] }

func (t *listText) Event(id, name, description []byte, scheduledAt time.Time) {
	b := append(t.read, eventRecord)
	b = appendRecord(b, id)
	b = binary.LittleEndian.AppendUint64(b, uint64(scheduledAt.UnixMilli()))
	b = appendRecord(b, name)
	t.read = appendRecord(b, description)
}

func (t *listText) Usernames(text []byte) {
	t.read = appendRecord(append(t.read, usernamesRecord), text)
}

func appendRecord(b, text []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(text))), text...)
}

// encode makes JSON of what has been read, and stops after size bytes, if there is more. It tells whether that was all;
// last then ends the list.
func (t *listText) encode(size int, last bool) (all bool) {
	b, in := t.json, t.read[t.next:]
	need := size
	if len(in) < size {
		need = min(size, len(in)+len(between)*bytes.Count(in, lineFeed))
	}
	b = slices.Grow(b, need+4<<10) // nearly always enough
	text := func() (s []byte) {
		n := 4 + binary.LittleEndian.Uint32(in)
		s, in = in[4:n], in[n:]
		return s
	}
	if !t.begun {
		b = append(b, `{"events":[`...)
		t.begun = true
	}
	for len(in) > 0 && len(b) < size {
		kind := in[0]
		in = in[1:]
		if kind == usernamesRecord {
			b = appendRSVPs(b, text(), t.inRSVPs)
			t.inRSVPs = true
			continue
		}
		if t.inEvent {
			b = append(b, "]},"...)
		}
		t.inEvent, t.inRSVPs = true, false
		b = append(b, `{"id":"`...)
		b = append(b, text()...)
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
	if all = len(in) == 0; all {
		t.read = t.read[:0]
	}
	t.next = len(t.read) - len(in)
	if all && last {
		if t.inEvent {
			b = append(b, "]}"...)
		}
		b = append(b, "]}"...)
	}
	t.json = b
	return all
}

var lineFeed = []byte{'\n'}

// between stands between two usernames.
const between = `"}},{"user":{"username":"`

// appendRSVPs writes usernames, which line feeds separate, as RSVPs. A large world is little else, so the names are
// looked at once, all together, and nearly always copied as they are.
func appendRSVPs(b, usernames []byte, more bool) []byte {
	const begin, end = `{"user":{"username":"`, `"}}`
	if more {
		b = append(b, ',')
	}
	plain := isPlain(usernames)
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
		b = append(b, between...)
		usernames = usernames[next+1:]
	}
}

// isPlain tells whether a JSON string can have these bytes as they are: ASCII without quotes, backslashes and control
// characters. A line feed passes: no name has one, and appendString looks for it. Eight bytes are looked at together.
func isPlain(s []byte) bool {
	for ; len(s) >= 8; s = s[8:] {
		if !arePlain(binary.LittleEndian.Uint64(s)) {
			return false
		}
	}
	rest := [8]byte{'.', '.', '.', '.', '.', '.', '.', '.'}
	copy(rest[:], s)
	return arePlain(binary.LittleEndian.Uint64(rest[:]))
}

func arePlain(eight uint64) bool {
	const each, top = 0x0101010101010101, 0x8080808080808080
	// equal has the top bit of each byte that is c, and no other bit.
	equal := func(c uint64) uint64 {
		x := eight ^ c*each
		return ^(x&^top + 0x7f*each | x | ^uint64(top))
	}
	if eight&top != 0 {
		return false
	}
	control := ^(eight + 0x60*each) & top // nothing carries: no byte is above 0x7f
	return control&^equal('\n')|equal('"')|equal('\\') == 0
}

// appendString is a JSON string. Nearly all are plain.
func appendString(b, s []byte) []byte {
	if !isPlain(s) || bytes.IndexByte(s, '\n') >= 0 {
		b, _ = jsontext.AppendQuote(b, s)
		return b
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
