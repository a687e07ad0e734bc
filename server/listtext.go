package server

import (
	"bytes"
	"io"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"worldevents/gen"
)

// listText is the JSON of a list as it grows: gen.EventList without reflection, and without a value per RSVP. It is
// the models.ListSink of the server.
type listText struct {
	b       []byte
	written int // bytes that have left b
}

const (
	listHead = `{"events":[`
	// maxPooled is the largest buffer kept for another list, in bytes.
	maxPooled = 2 * maxHeld
)

var listTexts = sync.Pool{New: func() any { return new(listText) }}

func newListText() *listText {
	t := listTexts.Get().(*listText)
	t.b, t.written = append(t.b[:0], listHead...), 0
	return t
}

// free returns the buffer to the pool.
func (t *listText) free() {
	if cap(t.b) <= maxPooled {
		listTexts.Put(t)
	}
}

// fork is the text from its last byte on, in a small buffer of its own: slow clients may keep many of them.
func (t *listText) fork() *listText {
	return &listText{b: []byte{t.b[len(t.b)-1]}, written: t.Size() - 1}
}

func (t *listText) Size() int { return t.written + len(t.b) }

func (t *listText) Truncate(size int) { t.b = t.b[:size-t.written] }

func (t *listText) Event(id, name, description []byte, scheduledAt time.Time) {
	b := t.b
	if t.Size() > len(listHead) {
		b = append(b, "]},"...)
	}
	b = append(b, `{"id":"`...)
	b = append(b, id...)
	b = append(b, `","name":`...)
	b = appendString(b, name)
	b = append(b, `,"description":`...)
	b = appendString(b, description)
	b = append(b, `,"scheduledAt":"`...)
	b, _ = gen.DateTime(scheduledAt).AppendText(b)
	t.b = append(b, `","RSVPs":[`...)
}

func (t *listText) Usernames(text []byte) {
	b := t.b
	for more := true; more; {
		var name []byte
		name, text, more = bytes.Cut(text, lineFeed)
		if b[len(b)-1] != '[' {
			b = append(b, ',')
		}
		b = append(b, `{"user":{"username":`...)
		b = appendString(b, name)
		b = append(b, "}}"...)
	}
	t.b = b
}

var lineFeed = []byte{'\n'}

// finish ends the last event and the list.
func (t *listText) finish() {
	if t.Size() > len(listHead) {
		t.b = append(t.b, "]}"...)
	}
	t.b = append(t.b, "]}"...)
}

// flush writes what is there, but for one byte when more is to come: what follows depends on it.
func (t *listText) flush(w io.Writer, last bool) error {
	n := len(t.b) - 1
	if last {
		n++
	}
	_, err := w.Write(t.b[:n])
	t.b = t.b[:copy(t.b, t.b[n:])]
	t.written += n
	return err
}

// appendString is a JSON string. Nearly all are plain and need no second look at each character.
func appendString(b, s []byte) []byte {
	for _, c := range s {
		if c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			b, _ = jsontext.AppendQuote(b, s)
			return b
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
