package events

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

func TestCreateEventStoresEventAndRSVP(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		s.Clock.Freeze(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		alice := s.SignIn("alice")
		res := alice.Post(servicetest.Plaza, servicetest.EventBody).Is(200, servicetest.Success).SetsNoCookie()
		id := res.Header.Get("Event-Id")
		alice.Get(servicetest.Plaza).Is(200, servicetest.List(servicetest.Listed(id, "Chess", "Bring a board.", servicetest.When, "alice")))
		alice.Get("/api/event/elsewhere").Is(200, servicetest.List())

		var world, creator, name, description string
		var scheduled, created, joined time.Time
		s.Database.Read(`SELECT world_id, creator_id, name, description, scheduled_at, e.created_at, r.created_at
			FROM events e JOIN rsvps r ON r.event_number = e.number JOIN users u ON u.number = r.user_number AND u.id = e.creator_id WHERE e.id = ?`,
			[]any{id}, &world, &creator, &name, &description, &scheduled, &created, &joined)
		now := s.Clock.Now()
		servicetest.Is(t, []any{world, creator, name, description, scheduled.UTC(), created.UTC(), joined.UTC()},
			[]any{"plaza", alice.Session.UserID, "Chess", "Bring a board.", time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), now, now}, "what is stored")
		// The id is a UUIDv7: new rows land at the end of their index.
		if next := alice.Create("plaza", "b", servicetest.When); len(id) != 36 || id[14] != '7' || id >= next {
			t.Errorf("ids %s, %s", id, next)
		}
	})
}

// Nobody acts for another: whatever the body, the query or a header says, it is the session's user.
func TestCreateEventBindsNothingElse(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob").Session
		body := strings.TrimSuffix(servicetest.EventBody, "}") + fmt.Sprintf(`,"id":"%[1]s","ID":"x","worldId":"other","world_id":"other","creatorId":"%[1]s","creator_id":"%[1]s",
			"userId":"%[1]s","createdAt":"2000-01-01T00:00:00Z","RSVPs":[{"user":{"username":"bob"}}],"Name":"wrong case","NAME":7,
			"huge":1e999,"digits":%[2]s,"null":null,"nested":{"a":[1,{"b":[]}]}}`, bob.UserID, strings.Repeat("9", 400))
		res := alice.Post(servicetest.Plaza+"?id=other&name=query&userId="+bob.UserID, body, servicetest.Header("X-HTTP-Method-Override", "DELETE"),
			servicetest.Header("X-User", "bob")).Is(200, servicetest.Success)
		alice.Get(servicetest.Plaza).Is(200, servicetest.List(servicetest.Listed(res.Header.Get("Event-Id"), "Chess", "Bring a board.", servicetest.When, "alice")))
		alice.Get("/api/event/other").Is(200, servicetest.List())
	})
}

func TestCreateEventFields(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		type fields = map[string]any
		with := func(name string, value any) fields {
			f := fields{"name": "n", "description": "d", "scheduledAt": servicetest.When}
			if f[name] = value; value == nil {
				delete(f, name)
			}
			return f
		}
		null := json.RawMessage("null")
		valid := []fields{
			with("name", "x"),
			with("name", strings.Repeat("x", 200)),
			with("name", strings.Repeat("😀", 200)),
			with("name", strings.Repeat("é", 200)),
			with("name", " x "),
			with("name", "\u200b"), // zero width, yet no white space to Unicode
			with("name", "\ufeff"),
			with("name", `"quotes" \ / <b>&amp;</b> `+"\u2028\u2029"),
			with("name", "e\u0301\u202e"),
			with("name", "\U0010ffff"),
			with("name", "'; DROP TABLE events; --"),
			with("description", ""),
			with("description", "  "),
			with("description", "\t\r\n"),
			with("description", strings.Repeat("😀", 5000)),
			with("description", "\\u0000 %s ? $1 :name"),
		}
		for _, f := range valid {
			world := "/api/event/" + fmt.Sprint(len(f["name"].(string)), len(f["description"].(string)), s.Clock.Now().UnixNano())
			world = strings.ReplaceAll(world, " ", "-")
			body, _ := json.Marshal(f)
			id := alice.Post(world, string(body)).Is(200, servicetest.Success).Header.Get("Event-Id")
			alice.Get(world).Is(200, servicetest.List(servicetest.Listed(id, f["name"].(string), f["description"].(string), servicetest.When, "alice")))
		}

		var invalid = []struct {
			field  string
			values []any
		}{
			{"name", []any{nil, null, "", " ", "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000",
				strings.Repeat("x", 201), strings.Repeat("😀", 201), "a\x00", "a\nb", "a\rb", "\n", "a\r\n", "a\tb", "\x1b[0m", "a\x7f", "a\u0080", "a\u0085b", "a\u009f", 7, true, []string{"x"}, fields{"x": "y"}}},
			{"description", []any{nil, null, strings.Repeat("x", 5001), strings.Repeat("😀", 5001), "\x00", "\x0b", "\x0c", "\x1f", "\x7f", "\u0080", "\u0085", "\u009f", 7, false}},
			{"scheduledAt", []any{nil, null, "", 7, 1893553445000, []string{servicetest.When}}},
		}
		for _, test := range invalid {
			s.Run(t, test.field, func(t *testing.T) {
				for _, value := range test.values {
					body, _ := json.Marshal(with(test.field, value))
					alice.Post("/api/event/bad", string(body)).IsError(400, "validation_failed", test.field)
				}
			})
		}
		for body, field := range map[string]string{
			`{"name":"\ud83d","description":"","scheduledAt":"` + servicetest.When + `"}`:  "name",
			`{"name":"a","description":"\ude00","scheduledAt":"` + servicetest.When + `"}`: "description",
		} {
			alice.Post("/api/event/bad", body).IsError(400, "validation_failed", field)
		}
		for _, world := range []string{".", "..", "%2e", "%2E%2e"} {
			alice.Post("/api/event/"+world, servicetest.EventBody).IsError(400, "validation_failed", "id")
			alice.Get("/api/event/"+world).IsError(400, "validation_failed", "id")
		}
		alice.Get("/api/event/bad").Is(200, servicetest.List())
	})
}

func TestCreateEventScheduledAt(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		for out, all := range map[string][]string{ // cut, not rounded
			servicetest.When: {
				"2030-01-02T03:04:05Z", "2030-01-02t03:04:05z", "2030-01-02T03:04:05+00:00", "2030-01-02T03:04:05-00:00", "2030-01-02T17:04:05+14:00",
				"2030-01-01T13:04:05-14:00", "2030-01-02T08:34:05.0+05:30", "2030-01-02T03:04:05.0009999999999999999Z",
			},
			"2030-01-02T03:04:05.100Z": {"2030-01-02T03:04:05.1Z"},
			"2030-01-02T03:04:05.123Z": {"2030-01-02T03:04:05.123456789Z"},
			"2030-01-02T03:04:05.999Z": {"2030-01-02T03:04:05.9999Z", "2030-01-02t03:04:05." + strings.Repeat("9", 40) + "z"},
			"1970-01-01T00:00:00.000Z": {"1970-01-01T00:00:00Z", "1970-01-01T14:00:00+14:00", "1969-12-31T23:00:00-01:00"},
			"1999-12-31T23:59:59.999Z": {"1999-12-31T23:59:59.999Z"},
			"9999-12-31T23:59:59.999Z": {"9999-12-31T23:59:59.9999999Z"},
			"9999-12-31T09:59:59.000Z": {"9999-12-31T23:59:59+14:00"},
			"2028-02-29T00:00:00.000Z": {"2028-02-29T00:00:00Z"},
			"2000-02-29T00:00:00.000Z": {"2000-02-29T00:00:00Z"},
		} {
			for _, in := range all {
				world := fmt.Sprintf("w%x", in)
				id := alice.Create(world, "n", in)
				alice.Get("/api/event/"+world).Is(200, servicetest.List(servicetest.Listed(id, "n", "", out, "alice")))
			}
		}
		for _, in := range []string{
			"", " ", "x", "2030-01-02", "2030-01-02T03:04:05", "2030-01-02 03:04:05Z", "20300102T030405Z", "2030-01-02T03:04Z",
			" 2030-01-02T03:04:05Z", "2030-01-02T03:04:05Z ", "2030-01-02T03:04:05Z\n", "2030-01-02T03:04:05 Z",
			"2030-01-02T3:04:05Z", "2030-1-2T03:04:05Z", "02030-01-02T03:04:05Z", "+2030-01-02T03:04:05Z",
			"2030-01-02T03:04:05,5Z", "2030-01-02T03:04:05.Z", "2030-01-02T03:04:05.1.2Z", "2030-01-02T03:04:05.0000000001z0Z",
			"2030-02-30T00:00:00Z", "2030-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2030-04-31T00:00:00Z", "2030-13-01T00:00:00Z",
			"2030-00-01T00:00:00Z", "2030-01-00T00:00:00Z", "2030-01-32T00:00:00Z",
			"2030-01-02T24:00:00Z", "2030-01-02T03:60:00Z", "2030-01-02T03:04:61Z", "2016-12-31T23:59:60Z",
			"2030-01-02T03:04:05+14:01", "2030-01-02T03:04:05-14:01", "2030-01-02T03:04:05+24:00", "2030-01-02T03:04:05+13:60",
			"2030-01-02T03:04:05Z+01:00", "2030-01-02T03:04:05+01:0",
			"2030-01-02T03:04:05+0100", "2030-01-02T03:04:05+1:00", "2030-01-02T03:04:05+01", "2030-01-02T03:04:05UTC", "2030-01-02T03:04:05\u221201:00",
			"1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00+00:01", "0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z",
			"9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59-00:01", "10000-01-01T00:00:00Z",
			"２０３０-01-02T03:04:05Z",
		} {
			body, _ := json.Marshal(map[string]string{"name": "n", "description": "", "scheduledAt": in})
			alice.Post("/api/event/bad", string(body)).IsError(400, "validation_failed", "scheduledAt")
		}
		alice.Get("/api/event/bad").Is(200, servicetest.List())
	})
}

// Any id of 1 to 128 code points without control characters is a world, whose path is decoded once.
func TestCreateEventWorlds(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		for _, path := range []string{
			"w", "join", "W", "%20", "%C3%A9", "e%CC%81", "a%2Fb", "a%2f..%2fb", "100%25", "a%2541", "..%2F", "%3Fx=1", "%23", "+", "a+b", "a%20b",
			strings.Repeat("w", 128), strings.Repeat("%F0%9F%98%80", 128), "%22%5C%3C%26", "%E2%80%A8", "a;b=c,d", "$1", "%25s", ":id", "*", "~", "%EF%BF%BD",
			"%61%2Fc", "%61%2542", "a%252F%62", "%70laz%612", "a%20b%2Bc", "a:b@c!", "a%3Ab%40d%21",
		} {
			id := alice.Post("/api/event/"+path, servicetest.EventBody).Is(200, servicetest.Success).Header.Get("Event-Id")
			stored := servicetest.Must(url.PathUnescape(path))(t)
			servicetest.Is(t, s.Database.Count("events WHERE id = ? AND world_id = ?", id, stored), 1, "events of %s in the world %q", path, stored)
			alice.Get("/api/event/"+path).Is(200, servicetest.List(servicetest.Listed(id, "Chess", "Bring a board.", servicetest.When, "alice")))
		}
		for _, path := range []string{
			strings.Repeat("w", 129), strings.Repeat("%F0%9F%98%80", 129), "%ff", "a%C3", "%ED%A0%80", "%00", "a%0A", "%09", "%1F", "%7F", "%C2%80", "%C2%85", "%C2%9F",
		} {
			alice.Post("/api/event/"+path, servicetest.EventBody).IsError(400, "validation_failed", "id")
			alice.Get("/api/event/"+path).IsError(400, "validation_failed", "id")
		}
	})
}

func TestCreateEventBody(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t)
	alice := s.SignIn("alice")
	// with is a valid body with another member.
	with := func(member string) string { return strings.TrimSuffix(servicetest.EventBody, "}") + "," + member + "}" }
	nested := func(depth int, inner string) string { // the members of the body are at depth 1 already
		return with(`"x":` + strings.Repeat("[", depth-1) + inner + strings.Repeat("]", depth-1))
	}
	named := func(name string) string {
		return `{"name":"` + name + `","description":"","scheduledAt":"` + servicetest.When + `"}`
	}
	padded := func(size int) string {
		return servicetest.EventBody + strings.Repeat(" ", size-len(servicetest.EventBody))
	}
	for _, body := range []string{
		" \t\r\n" + servicetest.EventBody + "\n", strings.Replace(named(`\ud83d\ude00`), "name", `n\u0061me`, 1), nested(32, "1"), nested(32, ""), padded(64 << 10),
		with(`"x":{"name":1}`), with(`"NAME":"x","nAme":"y"`), with(`"":0`), with(`"x":-1E+99999`), with(`"x":0.` + strings.Repeat("1", 1000)),
		with(`"x":"\ude00"`), with(`"\ude00\ud83d":["\ude00\ud83d"]`), // surrogates alone, and in the wrong order
	} {
		alice.Post(servicetest.Plaza, body).Has(200)
	}
	for _, body := range []string{
		strings.TrimSuffix(servicetest.EventBody, "}"), "  ", servicetest.EventBody + servicetest.EventBody, servicetest.EventBody + "x", servicetest.EventBody + "\x00",
		"\ufeff" + servicetest.EventBody, "{\x00}\x00", named("\xff"), named("\xed\xa0\x80"), with("\"x\":\"\xc3\x28\""), with("\"\xff\":1"), // no UTF-8
		with(`"name":"again"`), with(`"n\u0061me":"again"`), with(`"x":1,"x":1`), with(`"x":[{"y":1,"y":1}]`), with(`"\ud83d":1,"\ud83e":2`), // duplicates
		nested(33, "1"), nested(33, ""), nested(10000, ""), with(`"x":` + strings.Repeat(`{"a":`, 32) + "1" + strings.Repeat("}", 32)),
		"{'name':'x'}", "/**/" + servicetest.EventBody, with(""), with(`"x":NaN`), with(`"x":01`), with(`"x":"`), with(`"x":"\ud8"`), named("a\nb"), "name=x&description=",
	} {
		alice.Post("/api/event/bad", body).IsError(400, "malformed_json")
	}
	for _, body := range []string{"null", "[]", "[" + servicetest.EventBody + "]", `"x"`, "7", "true"} {
		alice.Post("/api/event/bad", body).IsError(400, "validation_failed", "body")
	}
	// No body at all.
	alice.Post("/api/event/bad", "", servicetest.Header("Content-Type", "application/json")).IsError(400, "malformed_json")
	alice.Post("/api/event/bad", "").IsError(415, "unsupported_media_type")

	alice.Post("/api/event/bad", padded(64<<10+1)).IsError(413, "body_too_large")
	alice.Post("/api/event/bad", padded(1<<20)).IsError(413, "body_too_large")
	alice.Post("/api/event/bad", padded(64<<10+1), servicetest.Chunked).IsError(413, "body_too_large")
	alice.Post(servicetest.Plaza, padded(64<<10), servicetest.Chunked).Is(200, servicetest.Success)
	alice.Get("/api/event/bad").Is(200, servicetest.List())
}

func TestCreateEventMediaTypes(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t)
	alice := s.SignIn("alice")
	for _, value := range []string{
		"application/json", "APPLICATION/JSON", "application/json;charset=utf-8", "application/json; charset=UTF-8", `application/json; charset="utf-8"`,
		"application/json; charset=utf8", "application/json ;Charset=Utf-8", "application/json; v=1",
	} {
		alice.Post(servicetest.Plaza, servicetest.EventBody, servicetest.Header("Content-Type", value)).Is(200, servicetest.Success)
	}
	for _, value := range []string{
		"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/xml", "text/json", "application/json5",
		"application/ld+json", "application/vnd.api+json", "application/*", "*/*", "application", "json", ";", "application/json; charset=utf-16",
		"application/json; charset=iso-8859-1", `application/json; charset=""`, "application/json, text/plain", "text/plain, application/json",
		"application/json; charset=utf-8; charset=utf-16",
	} {
		alice.Post("/api/event/bad", servicetest.EventBody, servicetest.Header("Content-Type", value)).IsError(415, "unsupported_media_type")
	}
	twice := func(r *http.Request) { r.Header["Content-Type"] = []string{"application/json", "text/plain"} }
	alice.Post("/api/event/bad", servicetest.EventBody, twice).IsError(415, "unsupported_media_type")

	var compressed bytes.Buffer
	z := gzip.NewWriter(&compressed)
	z.Write([]byte(servicetest.EventBody))
	z.Close()
	alice.Post("/api/event/bad", compressed.String(), servicetest.Header("Content-Encoding", "gzip")).IsError(415, "unsupported_media_type")
	alice.Post("/api/event/bad", servicetest.EventBody, servicetest.Header("Content-Encoding", "br")).IsError(415, "unsupported_media_type")
	// The media type counts first, then the length, then the JSON, and then all fields.
	alice.Post("/api/event/%00", strings.Repeat("{", 64<<10+1), servicetest.Header("Content-Type", "text/plain")).IsError(415, "unsupported_media_type")
	alice.Post("/api/event/%00", strings.Repeat("{", 64<<10+1)).IsError(413, "body_too_large")
	alice.Post("/api/event/%00", "{").IsError(400, "malformed_json")
	alice.Get("/api/event/bad").Is(200, servicetest.List())
}

// The event and its creator's RSVP come together or not at all.
func TestCreateEventIsAllOrNothing(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		s.Database.Exec("ALTER TABLE rsvps RENAME TO rsvps_away")
		alice.Post(servicetest.Plaza, servicetest.EventBody).IsError(500, "internal")
		servicetest.Is(t, s.Database.Count("events"), 0, "events without an RSVP")
		s.Database.Exec("ALTER TABLE rsvps_away RENAME TO rsvps")
		alice.Post(servicetest.Plaza, servicetest.EventBody).Is(200, servicetest.Success)
	})
}
