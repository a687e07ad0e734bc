package events

import (
	"strings"
	"testing"
	"time"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// parseCalendar reads the properties of the event in a file as RFC 5545 section 3.1 has them, and checks how it is spelled.
func parseCalendar(t *testing.T, file string) map[string]string {
	t.Helper()
	lines, complete := strings.CutSuffix(file, "\r\n")
	if !complete || strings.ContainsAny(strings.ReplaceAll(file, "\r\n", ""), "\r\n") {
		t.Errorf("a line does not end in CR LF: %q", file)
	}
	for line := range strings.SplitSeq(lines, "\r\n") {
		if len(line) > 75 || strings.ToValidUTF8(line, "") != line {
			t.Errorf("%d octets, or half a character: %q", len(line), line)
		}
	}
	properties := make(map[string]string)
	for line := range strings.SplitSeq(strings.ReplaceAll(lines, "\r\n ", ""), "\r\n") {
		name, value, found := strings.Cut(line, ":")
		if _, again := properties[name]; !found || again && name != "BEGIN" && name != "END" {
			t.Errorf("%q", line)
		}
		properties[name] = value
	}
	return properties
}

// readCalendarText undoes what section 3.3.11 asks for.
func readCalendarText(text string) string {
	return strings.NewReplacer(`\\`, `\`, `\;`, ";", `\,`, ",", `\n`, "\n").Replace(text)
}

// Whoever made or joined an event gets it as a file for their calendar, whatever its texts are.
func TestCalendarFile(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		s.Clock.Freeze(time.Date(2029, 6, 1, 12, 0, 0, 0, time.UTC))
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		for name, want := range map[string]string{
			"Chess":                     "Chess",
			`a;b,c\nd\\;e:"f"`:          `a;b,c\nd\\;e:"f"`,
			"one\ntwo\r\nthree\rfour\n": "one\ntwo\nthree\nfour\n",
			"line\nBEGIN:VALARM":        "line\nBEGIN:VALARM",
			strings.Repeat("🎉", 200):    strings.Repeat("🎉", 200),
			strings.Repeat("é€", 100):   strings.Repeat("é€", 100),
			"مساء الخير":                "مساء الخير",
			" spaces ":                  " spaces ",
		} {
			id := createWith(alice, "plaza", "a name", name+name, "2030-01-02T03:04:05.678Z")
			s.Database.Exec("UPDATE events SET name = ? WHERE id = ?", name, id) // by hand: the contract takes no line breaks in names
			res := alice.Get("/events/"+id+".ics").Has(200).HasHeader("Content-Type", "text/calendar; charset=utf-8").SetsNoCookie().
				HasHeader("Content-Disposition", `attachment; filename="event.ics"`).HasHeader("Cache-Control", "no-store")
			got := parseCalendar(t, res.Body)
			if got["UID"] != id || got["DTSTAMP"] != "20290601T120000Z" || got["DTSTART"] != "20300102T030405Z" || got["VERSION"] != "2.0" || got["PRODID"] == "" {
				t.Errorf("%q", got)
			}
			servicetest.Is(t, readCalendarText(got["SUMMARY"]), want, "SUMMARY")
			servicetest.Is(t, readCalendarText(got["DESCRIPTION"]), want+want, "DESCRIPTION")
		}

		id := alice.Create("plaza", "Chess", servicetest.When)
		file := "/events/" + id + ".ics"
		bob.Get(file).IsError(404, "event_not_found")
		bob.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		bob.Get(file).Has(200)
		bob.Delete("/api/event/"+id).Is(200, servicetest.Success)
		bob.Get(file).IsError(404, "event_not_found")
		alice.Delete("/api/event/"+id).Is(200, servicetest.Success)
		alice.Get(file).Has(200)
		press(alice, "cancel", id).Is(303, "")
		alice.Get(file).IsError(404, "event_not_found")
		s.Client().Get(file).IsError(401, "invalid_token")
		for _, path := range []string{"/events/.ics", "/events/x.ics", "/events/" + id, "/events/" + id + ".ICS", "/events/a/" + id + ".ics", "/events/" + id + ".ics/"} {
			alice.Get(path).IsError(404, "not_found")
		}
	})
}

// The page counts the attendees of its events as far as it says, however many there are.
func TestManyAttendees(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		servicetest.Crowd(t, s, "crowded", models.MaxAttendees-1)
		alice := s.SignIn("alice")
		s.Database.Exec("UPDATE events SET creator_id = ?", alice.Session.UserID)
		made, _, _ := ownLists(t, alice, "")
		for _, want := range []string{"999 attendees", "1000 attendees or more", "1000 attendees or more"} {
			alice.Get("/events").Has(200, "<span>"+want+"</span>")
			s.SignIn("guest "+want[:3]).Post("/api/event/join/"+made[0].id, "").Is(200, servicetest.Success)
		}
	})
}
