package eventlist

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"worldevents/gen"
	"worldevents/models"
)

// Requests share a list, and Link repeats a parameter, only if the key has it: none is forgotten but wait, which does not change a list.
func TestKeyHasEachParameter(t *testing.T) {
	for field := range reflect.TypeFor[gen.ListEventsParams]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("form"), ",")
		if name == "" || name == "wait" { // or a header
			continue
		}
		key := newReadKey("w", name+"=12345")
		if key == newReadKey("w", "") || key.size() != len("w12345") || key.clone() != key {
			t.Errorf("%s: %+v", name, key)
		}
		if link := (&Lists{}).nextLink(key, models.Position{}); name != "cursor" && !strings.Contains(link, name+"=12345&") {
			t.Errorf("%s: %s", name, link)
		}
	}
}

// A string is what jsontext makes of it, and means what it meant: every byte that needs an escape is found at every place.
func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "plain", "a\nb", `"\/`, "\x00\x1f\x7f", "é\u2028\U0010ffff", "\xff\xfe", "12345678\"", "1234567\\"} {
		f.Add(s)
	}
	for c := range 256 {
		f.Add(string([]byte{byte(c)}))
		f.Add(string([]byte{'a', byte(c), 'b'}))
	}
	f.Fuzz(func(t *testing.T, s string) {
		b := appendString([]byte("x"), []byte(s))
		if want, _ := jsontext.AppendQuote([]byte("x"), s); !bytes.Equal(b, want) {
			t.Fatalf("%q: %q, want %q", s, b, want)
		}
		var got string
		if err := json.Unmarshal(b[1:], &got); err != nil {
			t.Fatalf("%q: %q: %v", s, b, err)
		}
		if want := strings.ToValidUTF8(s, "\ufffd"); got != want && strings.ToValidUTF8(s, "") == s {
			t.Errorf("%q becomes %q", s, got)
		}
	})
}

// A list is the JSON that the generated type has, and what was read before it began anew leaves no trace.
func FuzzEncode(f *testing.F) {
	f.Add("Chess \"night\"", "a\nb", "alice\nbob\n\"q\"", int64(1893456000000))
	f.Add("", "", "", int64(0))
	f.Add("é", "", "plain\né\n\"\nplain\n\\", int64(1))
	f.Add("é", strings.Repeat("d", 600), strings.Repeat("name\n", 300)+"last", int64(253402300799999))
	f.Add("two of it need two parts", strings.Repeat("d", partSize/2), "", int64(2))
	f.Add("longer than a part", strings.Repeat("\"", partSize), strings.Repeat("name\n", 5000), int64(3))
	f.Fuzz(func(t *testing.T, name, description, usernames string, milli int64) {
		if milli < 0 || milli > 253402300799999 {
			return
		}
		clean := func(s string) string { return strings.ToValidUTF8(s, "?") }
		name, description = clean(name), clean(description)
		users := strings.FieldsFunc(clean(usernames), func(r rune) bool { return r == '\n' })
		at := time.UnixMilli(milli).UTC()
		want := gen.EventList{Events: []gen.WorldEvent{}}
		e := &encoder{room: &room{memory: newHoldings(1).memory, callers: make([]models.Caller, 1)}}
		e.Begin()
		e.Event(&models.ListedEvent{Name: []byte("ghost"), Usernames: []byte("ghost")})
		e.Begin()
		for n := range 3 {
			id := models.ID{15: byte(n)}
			event := gen.WorldEvent{ID: id.String(), Name: name, Description: description, ScheduledAt: gen.DateTime(at), RSVPs: []gen.RSVP{}}
			for i := range users {
				event.RSVPs = append(event.RSVPs, gen.RSVP{User: gen.RSVPUser{Username: users[i]}})
			}
			listed := models.ListedEvent{ID: id, ScheduledAt: at, Name: []byte(name), Description: []byte(description), Usernames: []byte(strings.Join(users, "\n"))}
			if !e.Event(&listed) {
				t.Fatal(e.err)
			}
			want.Events = append(want.Events, event)
		}
		got := e.list()
		var list gen.EventList
		if err := json.Unmarshal(got, &list); err != nil {
			t.Fatalf("%v: %.300s", err, got)
		}
		a, _ := json.Marshal(list)
		b, _ := json.Marshal(want)
		if !bytes.Equal(a, b) {
			t.Errorf("\n got %.500s\nwant %.500s", a, b)
		}
	})
}

func FuzzCursor(f *testing.F) {
	f.Add("plaza", int64(0), make([]byte, 16))
	f.Add("a/b", int64(253402300799999), []byte("0123456789abcdef"))
	f.Fuzz(func(t *testing.T, world string, milli int64, id []byte) {
		if len(id) != 16 {
			return
		}
		position := models.Position{ScheduledAt: time.UnixMilli(milli).UTC(), ID: models.ID(id)}
		cursor := WriteCursor(world, position)
		got, ok := ReadCursor(world, cursor)
		if inRange := milli >= 0 && milli <= 253402300799999; ok != inRange || ok && got != position {
			t.Errorf("%v becomes %v, %v", position, got, ok)
		}
		if _, ok := ReadCursor(world+"x", cursor); ok {
			t.Error("a cursor of another world is taken")
		}
	})
}

// An ETag follows the key, Link and records, and where one of these ends.
func TestETag(t *testing.T) {
	tag := newTagger([]byte("key")).etag("link", []byte("records"))
	if again := newTagger([]byte("key")).etag("link", []byte("records")); again != tag || len(tag) != len(`W/""`)+22 {
		t.Errorf("%s, then %s", tag, again)
	}
	seen := map[string]string{tag: "the first"}
	add := func(what, tag string) {
		if other, ok := seen[tag]; ok {
			t.Errorf("%s has the ETag of %s", what, other)
		}
		seen[tag] = what
	}
	add("another key", newTagger([]byte("kez")).etag("link", []byte("records")))
	add("no link", newTagger([]byte("key")).etag("", []byte("records")))
	add("a moved boundary", newTagger([]byte("key")).etag("linkr", []byte("ecords")))
	add("another boundary", newTagger([]byte("key")).etag("lin", []byte("krecords")))
	for i := range 16 << 10 * 8 { // one bit anywhere
		if i%97 == 0 {
			text := make([]byte, 16<<10)
			text[i/8] ^= 1 << (i % 8)
			add(fmt.Sprint("bit ", i), newTagger([]byte("key")).etag("link", text))
		}
	}
}
