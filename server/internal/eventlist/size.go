package eventlist

import (
	"bytes"
	"encoding/binary"

	"worldevents/models"
)

// sizer finds out how long the JSON of records is, without making it.
type sizer struct {
	n                int
	inEvent, hasRSVP bool
	scratch          []byte
}

// The lengths of the JSON around a list, of an event without its texts, and around usernames.
const (
	listJSON  = len(`{"events":[` + `]}`)
	eventJSON = len(`{"id":"` + `","name":` + `,"description":` + `,"scheduledAt":"` + `","RSVPs":[` + `]}` +
		"00000000-0000-7000-8000-000000000000" + "2030-01-02T03:04:05.000Z")
	rsvpsJSON = len(`{"user":{"username":"` + `"}}`)
)

// add adds records, from the beginning of one to the end of one.
func (s *sizer) add(in []byte) {
	text := func() (t []byte) {
		n := 4 + binary.LittleEndian.Uint32(in)
		t, in = in[4:n], in[n:]
		return t
	}
	for len(in) > 0 {
		kind := in[0]
		in = in[1:]
		if kind == eventRecord {
			if s.inEvent {
				s.n++ // a comma
			}
			s.inEvent, s.hasRSVP = true, false
			in = in[len(models.ID{})+8:]
			s.n += eventJSON + s.quoted(text()) + s.quoted(text())
			continue
		}
		if s.hasRSVP {
			s.n++
		}
		s.hasRSVP = true
		names := text()
		breaks := bytes.Count(names, lineFeed)
		s.n += rsvpsJSON + breaks*len(rsvpSeparator)
		if needsNoEscape(names) {
			s.n += len(names) - breaks
			continue
		}
		for name := range bytes.SplitSeq(names, lineFeed) {
			s.n += s.quoted(name) - 2
		}
	}
}

// quoted returns the length of a JSON string.
func (s *sizer) quoted(text []byte) int {
	if needsNoEscape(text) && bytes.IndexByte(text, '\n') < 0 {
		return len(text) + 2
	}
	s.scratch = appendString(s.scratch[:0], text)
	return len(s.scratch)
}

// size returns the length of the list.
func (s *sizer) size() int { return listJSON + s.n }
