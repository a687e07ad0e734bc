package eventlist

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/url"
	"strings"
	"time"

	"worldevents/gen"
	"worldevents/models"
)

// Query is what a request selects.
type Query struct {
	World  string
	Params gen.ListEventsParams
	// Raw is the query component as the client spelled it: Link repeats from, to and limit.
	Raw string
}

// Check returns ErrCursor for a cursor that was not made for this world.
func (q Query) Check() error {
	_, err := newListOptions(q)
	return err
}

// newListOptions is what the parameters select.
func newListOptions(q Query) (models.ListOptions, error) {
	options := models.ListOptions{WorldID: q.World, From: roundUpToMilli(q.Params.From), To: roundUpToMilli(q.Params.To)}
	if q.Params.Limit != nil {
		options.Limit = int(*q.Params.Limit)
	}
	if q.Params.Cursor != nil {
		var ok bool
		if options.After, ok = readCursor(q.World, *q.Params.Cursor); !ok {
			return options, ErrCursor
		}
	}
	return options, nil
}

// roundUpToMilli rounds up to the millisecond, the precision of scheduledAt. After the last instant that an event can
// have it returns one microsecond more than that: neither database need know the year 10000.
func roundUpToMilli(d *gen.DateTime) time.Time {
	if d == nil {
		return time.Time{}
	}
	t := d.Time()
	up := t.Add(time.Millisecond - 1).Truncate(time.Millisecond)
	if up.Year() > 9999 {
		return t.Truncate(time.Millisecond).Add(time.Microsecond)
	}
	return up
}

// readKey is what makes two requests ask for the same list. It has the parameters as they are spelled, since Link
// repeats them.
type readKey struct{ world, from, to, limit, cursor string }

func newReadKey(world, rawQuery string) readKey {
	if rawQuery == "" {
		return readKey{world: world}
	}
	query, _ := url.ParseQuery(rawQuery) // checked before
	return readKey{world, query.Get("from"), query.Get("to"), query.Get("limit"), query.Get("cursor")}
}

// size is how many bytes the texts of a key have.
func (k readKey) size() int {
	return len(k.world) + len(k.from) + len(k.to) + len(k.limit) + len(k.cursor)
}

// clone returns a key that does not keep the request alive.
func (k readKey) clone() readKey {
	return readKey{strings.Clone(k.world), strings.Clone(k.from), strings.Clone(k.to), strings.Clone(k.limit), strings.Clone(k.cursor)}
}

// nextLink is the page that begins after position (RFC 8288), asked for with the same from, to and limit.
func (l *Lists) nextLink(key readKey, position models.Position) string {
	var b strings.Builder
	b.WriteString("<" + l.baseURL + "/api/event/" + url.PathEscape(key.world) + "?")
	for _, p := range []struct{ name, value string }{{"from", key.from}, {"to", key.to}, {"limit", key.limit}} {
		if p.value != "" {
			b.WriteString(p.name + "=" + url.QueryEscape(p.value) + "&")
		}
	}
	b.WriteString("cursor=" + writeCursor(key.world, position) + `>; rel="next"`)
	return b.String()
}

// A cursor is a position (8 bytes of milliseconds, 16 of id) and 8 bytes of a digest that tie it to its world.
const (
	positionBytes = 8 + 16
	cursorBytes   = positionBytes + 8
)

var strictBase64 = base64.RawURLEncoding.Strict()

func writeCursor(world string, position models.Position) string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, cursorBytes), uint64(position.ScheduledAt.UnixMilli()))
	b = append(b, position.ID[:]...)
	return strictBase64.EncodeToString(append(b, cursorDigest(world, b)...))
}

// readCursor is false for what writeCursor has not made for this world.
func readCursor(world, text string) (models.Position, bool) {
	if len(text) != strictBase64.EncodedLen(cursorBytes) { // the decoder would skip line breaks
		return models.Position{}, false
	}
	b, err := strictBase64.DecodeString(text)
	if err != nil || len(b) != cursorBytes || string(b[positionBytes:]) != string(cursorDigest(world, b[:positionBytes])) {
		return models.Position{}, false
	}
	at := time.UnixMilli(int64(binary.BigEndian.Uint64(b))).UTC()
	if at.Year() < 1970 || at.Year() > 9999 { // the digest is no secret, and a database need not know every year
		return models.Position{}, false
	}
	return models.Position{ScheduledAt: at, ID: models.ID(b[8:])}, true
}

func cursorDigest(world string, position []byte) []byte {
	sum := sha256.Sum256(append([]byte(world+"\x00"), position...))
	return sum[:cursorBytes-positionBytes]
}
