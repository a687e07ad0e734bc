package events

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// asksForHTML is what a window shows.
var asksForHTML = servicetest.Header("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")

const nobodyIsSignedIn = "Nobody is signed in here"

// ownEntry is an event as /events shows it. does are the controls that it has.
type ownEntry struct{ id, name, world, at, does string }

var (
	ownEntryPattern = regexp.MustCompile(`(?s)<li>(.*?)<h4 id="event-([^"]+)"><bdi>(.*?)</bdi></h4>(.*?)</li>`)
	worldPattern    = regexp.MustCompile(`(?s)<a [^>]*><bdi>(.*?)</bdi></a>`)
	timePattern     = regexp.MustCompile(`<time data-show="hour" datetime="([^"]+)">[^<]+ UTC</time>`)
	controlPattern  = regexp.MustCompile(`>(Edit|Cancel the event|Leave)<`)
)

// ownLists reads the lists of a page.
func ownLists(t *testing.T, c *servicetest.Client, query string) (made, joined []ownEntry, page string) {
	t.Helper()
	res := c.Get("/events"+query).Has(200).HasHeader("Content-Type", "text/html; charset=utf-8").HasHeader("Cache-Control", "no-store").SetsNoCookie()
	servicetest.Lacks(t, res.Body, nobodyIsSignedIn)
	read := func(name string) (all []ownEntry) {
		_, text, _ := strings.Cut(res.Body, `<section aria-labelledby="`+name+`">`)
		text, _, _ = strings.Cut(text, "</section>")
		for _, m := range ownEntryPattern.FindAllStringSubmatch(text, -1) {
			e := ownEntry{id: m[2], name: html.UnescapeString(m[3])}
			if world := worldPattern.FindStringSubmatch(m[4]); world != nil {
				e.world = html.UnescapeString(world[1])
			}
			if at := timePattern.FindStringSubmatch(m[4]); at != nil {
				e.at = at[1]
			}
			for _, control := range controlPattern.FindAllStringSubmatch(m[4], -1) {
				e.does += control[1] + ";"
			}
			all = append(all, e)
		}
		if len(all) != strings.Count(text, "<li>") {
			t.Fatalf("%d entries can be read of %s", len(all), text)
		}
		return all
	}
	return read("made"), read("joined"), res.Body
}

// editForm is the form of an event: what its controls have.
type editForm struct{ action, id, shown, name, description, scheduledAt string }

var formPattern = regexp.MustCompile(`(?s)<form method="post" action="([^"]+)" autocomplete="off">.*?name="id" value="([^"]*)".*?name="shown" value="([^"]*)".*?` +
	`name="name" value="([^"]*)".*?<textarea [^>]*>\n(.*?)</textarea>.*?name="scheduledAt" value="([^"]*)"`)

// readForm reads the form of a page.
func readForm(t *testing.T, page *servicetest.Response) editForm {
	t.Helper()
	m := formPattern.FindStringSubmatch(page.Body)
	if m == nil {
		t.Fatalf("no form: %d %s", page.Status, page.Body)
	}
	for i := range m {
		m[i] = html.UnescapeString(m[i])
	}
	return editForm{m[1], m[2], m[3], m[4], m[5], m[6]}
}

// openForm opens the form of an event.
func openForm(t *testing.T, c *servicetest.Client, id string) editForm {
	t.Helper()
	return readForm(t, c.Get("/events/edit?id="+id).HasHeader("Cache-Control", "no-store").SetsNoCookie())
}

// encode spells the form as browsers do, line breaks as CR LF.
func (f editForm) encode() string {
	return url.Values{
		"id": {f.id}, "shown": {f.shown}, "name": {f.name}, "description": {strings.ReplaceAll(f.description, "\n", "\r\n")}, "scheduledAt": {f.scheduledAt},
	}.Encode()
}

func (f editForm) send(c *servicetest.Client, with ...servicetest.RequestOption) *servicetest.Response {
	return c.Submit("/events/edit", f.encode(), append([]servicetest.RequestOption{asksForHTML}, with...)...)
}

// isSaved fails the test unless the form was taken.
func isSaved(t *testing.T, res *servicetest.Response) {
	t.Helper()
	if res.Is(303, "").SetsNoCookie(); !strings.HasPrefix(res.Header.Get("Location"), "/events") {
		t.Errorf("leads to %q", res.Header.Get("Location"))
	}
}

// press sends one of the forms with an id alone.
func press(c *servicetest.Client, what, id string, with ...servicetest.RequestOption) *servicetest.Response {
	return c.Submit("/events/"+what, url.Values{"id": {id}}.Encode(), append([]servicetest.RequestOption{asksForHTML}, with...)...)
}

// audits are the audit lines in the log of a service.
func audits(s *servicetest.Service) (lines []string) {
	for line := range strings.Lines(s.Log.String()) {
		if strings.Contains(line, `"msg":"audit"`) {
			lines = append(lines, line)
		}
	}
	return lines
}

// createWith creates an event of these values.
func createWith(c *servicetest.Client, world, name, description, at string) string {
	body := `{"name":` + servicetest.Quote(name) + `,"description":` + servicetest.Quote(description) + `,"scheduledAt":"` + at + `"}`
	return c.Post("/api/event/"+url.PathEscape(world), body).Is(200, servicetest.Success).Header.Get("Event-Id")
}

// The page shows what the user made and joined, those to come first, and nothing of others.
func TestEventsPage(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		s.Clock.Freeze(time.Date(2029, 6, 1, 0, 0, 0, 0, time.UTC))
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		made, joined, page := ownLists(t, alice, "")
		if made != nil || joined != nil || strings.Count(page, "<p>None to come.</p>") != 2 {
			t.Errorf("%s", page)
		}
		servicetest.Contains(t, page, `Signed in as <b dir="auto">alice</b>`)
		second := alice.Create("a/b & c", "second", "2031-01-02T03:04:05.678Z")
		first := alice.Create("plaza", "first", "2030-01-02T03:04:05Z")
		old := alice.Create("plaza", "old", "2028-01-02T03:04:05Z")
		older := alice.Create("plaza", "older", "2027-01-02T03:04:05Z")
		theirs := bob.Create("plaza", "theirs", "2030-05-06T07:08:09Z")
		bob.Create("plaza", "unknown to alice", servicetest.When)
		alice.Post("/api/event/join/"+theirs, "").Is(200, servicetest.Success)
		alice.Delete("/api/event/"+second).Is(200, servicetest.Success)

		const all, unjoined = "Edit;Leave;Cancel the event;", "Edit;Cancel the event;"
		atFirst := ownEntry{first, "first", "plaza", "2030-01-02T03:04:05Z", all}
		atSecond := ownEntry{second, "second", "a/b & c", "2031-01-02T03:04:05Z", unjoined}
		atTheirs := ownEntry{theirs, "theirs", "plaza", "2030-05-06T07:08:09Z", "Leave;"}
		past := []ownEntry{{old, "old", "plaza", "2028-01-02T03:04:05Z", all}, {older, "older", "plaza", "2027-01-02T03:04:05Z", all}}
		narrowed := func(entries ...ownEntry) (all []ownEntry) {
			for _, e := range entries {
				e.world = "" // which the page says once
				all = append(all, e)
			}
			return all
		}
		for query, want := range map[string][2][]ownEntry{
			"":                            {{atFirst, atSecond}, {atTheirs}},
			"?past=true":                  {past, nil},
			"?list=made":                  {{atFirst, atSecond}, nil},
			"?list=joined":                {nil, {atTheirs}},
			"?list=made&past=true":        {past, nil},
			"?world=plaza":                {narrowed(atFirst), narrowed(atTheirs)},
			"?world=a%2Fb+%26+c":          {narrowed(atSecond), nil},
			"?world=Plaza":                {nil, nil},
			"?world=plaza&past=true":      {narrowed(past...), nil},
			"?list=x&past=1&after=x&y=z":  {{atFirst, atSecond}, {atTheirs}},
			"?list=made&after=x." + first: {{atFirst, atSecond}, nil},
		} {
			made, joined, _ := ownLists(t, alice, query)
			servicetest.Is(t, [2][]ownEntry{made, joined}, want, "what was made and joined: %s", query)
		}
		for _, impossible := range []string{"%ff", "a%00", "%0d%0a", strings.Repeat("x", 129)} {
			if made, joined, page := ownLists(t, alice, "?world="+impossible); made != nil || joined != nil || !strings.Contains(page, "Show all worlds") {
				t.Errorf("%s: %v %v %s", impossible, made, joined, page)
			}
		}
		alice.Get("/events?world=plaza").Has(200, `Only those in the world <b dir="auto">plaza</b>. <a href="/events">`)
		for _, linked := range []string{"/sessions", "/docs", "/events"} {
			alice.Get(linked).Has(200, `<a href="/events"`)
		}
		alice.Get(servicetest.RefreshPath).Is(200, servicetest.Success) // looking has spent nothing
		servicetest.Is(t, audits(s), nil, "audit lines")
		for n := range 2 {
			s.SignIn(fmt.Sprint("guest", n)).Post("/api/event/join/"+first, "").Is(200, servicetest.Success)
		}
		_, _, page = ownLists(t, alice, "")
		var shown []string
		for _, m := range regexp.MustCompile(`<(?:h3|span)>[^\n]*?(\w+ \d{4}|\w+ attendees?)<`).FindAllStringSubmatch(page, -1) {
			shown = append(shown, m[1])
		}
		servicetest.Is(t, shown, []string{"January 2030", "3 attendees", "January 2031", "0 attendees", "May 2030", "2 attendees"}, "months and attendees")
	}, func(o *servicetest.Options) { o.Docs = true })
}

// What is edited is in lists, ETags and waiting lists at once, and what the form does not change stays as it is.
func TestEditOwnEvent(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		const at = "2030-01-02T03:04:05.678Z"
		key := servicetest.Header("Idempotency-Key", "k")
		body := `{"name":"a","description":"one\r\ntwo\rthree\n","scheduledAt":"` + at + `"}`
		id := alice.Post(servicetest.Plaza, body, key).Is(200, servicetest.Success).Header.Get("Event-Id")
		bob.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		const description = "one\r\ntwo\rthree\n"
		list := func(name, description, at string) string {
			return servicetest.List(servicetest.Listed(id, name, description, at, "alice", "bob"))
		}
		before := bob.Get(servicetest.Plaza).Is(200, list("a", description, at))
		tag := before.Header.Get("ETag")

		form := openForm(t, alice, id)
		if want := (editForm{"/events/edit", id, form.shown, "a", "one\ntwo\nthree\n", "2030-01-02T03:04"}); form != want || form.shown == "" {
			t.Errorf("%q", form)
		}
		// As it was shown it changes nothing.
		isSaved(t, form.send(alice))
		bob.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).Is(304, "")
		servicetest.Is(t, audits(s), nil, "audit lines")

		waiting := servicetest.Await(t, s, bob, servicetest.Plaza+"?wait=50", tag)
		form.name = "Rooftop <concert>"
		isSaved(t, form.send(alice).HasHeader("Location", "/events#event-"+id))
		arrived := servicetest.Come(t, waiting)
		arrived.Is(200, list("Rooftop <concert>", description, at))
		servicetest.Lacks(t, arrived.Header.Get("ETag"), tag)

		form = openForm(t, alice, id)
		form.description = "new\n\nlines"
		isSaved(t, form.send(alice))
		bob.Get(servicetest.Plaza).Is(200, list("Rooftop <concert>", "new\n\nlines", at))

		form = openForm(t, alice, id)
		form.scheduledAt = "2031-02-03T04:05"
		isSaved(t, form.send(alice))
		bob.Get(servicetest.Plaza).Is(200, list("Rooftop <concert>", "new\n\nlines", "2031-02-03T04:05:00.000Z"))

		form = openForm(t, alice, id)
		form.name, form.description, form.scheduledAt = "b", "", "2031-02-03T06:05:07.1239+01:00"
		isSaved(t, form.send(alice))
		bob.Get(servicetest.Plaza).Is(200, list("b", "", "2031-02-03T05:05:07.123Z"))

		// The repeated request is still the same one.
		alice.Post(servicetest.Plaza, body, key).Is(200, servicetest.Success).HasHeader("Event-Id", id)

		lines := audits(s)
		if len(lines) != 4 {
			t.Fatalf("%q", lines)
		}
		for i, changed := range []string{`["name"]`, `["description"]`, `["scheduledAt"]`, `["description","name","scheduledAt"]`} {
			servicetest.Contains(t, lines[i], `"level":"INFO","msg":"audit","action":"event edit","user":"`+alice.Session.UserID+`","session":"`,
				`"event":"`+id+`","world":"plaza","changed":`+changed+`,"client":"127.0.0.1","request_id":"`)
			servicetest.Lacks(t, lines[i], "Rooftop")
		}
	})
}

// The rules for an event, and their words, are those of createEvent, and what was typed stays.
func TestEditOwnEventRules(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		id := alice.Create("plaza", "a", servicetest.When)
		tag := alice.Get(servicetest.Plaza).Header.Get("ETag")
		for _, test := range []struct{ field, value string }{
			{"name", ""}, {"name", " \u2003\t"}, {"name", "a\x00b"}, {"name", "a\u0085b"}, {"name", strings.Repeat("é", 201)},
			{"description", "a\x00"}, {"description", "a\u009f"}, {"description", strings.Repeat("é", 5001)},
			{"scheduledAt", "x"}, {"scheduledAt", "2030-02-30T00:00"}, {"scheduledAt", "1969-12-31T23:59"}, {"scheduledAt", "10000-01-01T00:00"},
			{"scheduledAt", "2030-01-01T24:00"}, {"scheduledAt", "2030-01-01"}, {"scheduledAt", "2030-01-01T00:00:60"}, {"scheduledAt", "2030-01-01T00:00+15:00"},
		} {
			form := openForm(t, alice, id)
			members := map[string]string{"name": "n", "description": "", "scheduledAt": servicetest.When}
			switch members[test.field] = test.value; test.field {
			case "name":
				form.name = test.value
			case "description":
				form.description = test.value
			default:
				form.scheduledAt = test.value
			}
			json := fmt.Sprintf(`{"name":%s,"description":%s,"scheduledAt":%s}`, servicetest.Quote(members["name"]), servicetest.Quote(members["description"]), servicetest.Quote(members["scheduledAt"]))
			want := alice.Post(servicetest.Plaza, json).IsError(400, "validation_failed", test.field).Error().Fields[test.field]
			res := form.send(alice).SetsNoCookie().Has(400, `role="alert"`, `aria-invalid="true"`)
			servicetest.Is(t, strings.Count(res.Body, `<p class="fault">`+want+`</p>`), 1, "%s %.50q: faults %q", test.field, test.value, want)
			if again := readForm(t, res); !strings.ContainsAny(test.value, "\x00\u0085") && again != form { // HTML has no NUL
				t.Errorf("%q was typed, and is %q", form, again)
			}
		}
		form := openForm(t, alice, id)
		form.name, form.description, form.scheduledAt = "", strings.Repeat("x", 5001), "x"
		servicetest.Is(t, strings.Count(form.send(alice).Has(400).Body, `aria-invalid="true"`), 3, "faults")
		alice.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).Is(304, "")
		servicetest.Is(t, audits(s), nil, "audit lines")

		// The longest fit into a form.
		form = openForm(t, alice, id)
		form.name, form.description, form.scheduledAt = strings.Repeat("𝄞", 200), strings.Repeat("𝄞", 5000), "9999-12-31T23:59"
		isSaved(t, form.send(alice))
		alice.Get(servicetest.Plaza).Is(200, servicetest.List(servicetest.Listed(id, form.name, form.description, "9999-12-31T23:59:00.000Z", "alice")))
		isSaved(t, openForm(t, alice, id).send(alice))
		form.description = strings.Repeat("𝄞", 5500)
		form.send(alice, servicetest.Header("Accept", "")).IsError(400, "validation_failed", "body")
	})
}

// Of two who edit what both have seen the second is told, sees both, and loses nothing.
func TestEditsMeet(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		laptop, phone := s.SignIn("alice"), s.SignIn("alice")
		id := createWith(laptop, "plaza", "name", "text", servicetest.When)
		first, second := openForm(t, laptop, id), openForm(t, phone, id)
		first.name, first.scheduledAt = "name of <first>", "2030-01-02T05:00"
		second.name, second.description = "name of \"second\"", "text of\nsecond"
		isSaved(t, first.send(laptop))
		isSaved(t, first.send(laptop)) // pressed twice: it is so already

		page := second.send(phone).HasHeader("Cache-Control", "no-store").SetsNoCookie()
		page.Has(409, "The event was edited meanwhile", `role="alert"`, `Now: <span class="now" dir="auto">name of &lt;first&gt;</span>`,
			`Now: <span class="now" dir="auto">text</span>`, `Now: <time datetime="2030-01-02T05:00:00Z">`)
		servicetest.Is(t, strings.Count(page.Body, "Now: "), 3, "what is shown as it is now")
		again := readForm(t, page)
		if again.shown == second.shown || again.name != second.name || again.description != second.description || again.scheduledAt != second.scheduledAt {
			t.Errorf("%q became %q", second, again)
		}
		laptop.Get(servicetest.Plaza).Is(200, servicetest.List(servicetest.Listed(id, "name of <first>", "text", "2030-01-02T05:00:00.000Z", "alice")))

		// With something wrong in it the form says both.
		wrong := second
		wrong.scheduledAt = "x"
		both := wrong.send(phone).Has(409, `<p class="fault">must be an RFC 3339`)
		servicetest.Is(t, strings.Count(both.Body, "Now: "), 3, "what is shown as it is now")
		// A digest that was made up, or none, is that of nothing.
		for _, shown := range []string{"", "x", strings.ToLower(again.shown), again.shown + "=", " " + again.shown} {
			forged := again
			forged.shown = shown
			if page := forged.send(phone); page.Status != 409 && shown != again.shown {
				t.Errorf("%q: %d", shown, page.Status)
			}
		}
		isSaved(t, again.send(phone))
		laptop.Get(servicetest.Plaza).Is(200, servicetest.List(servicetest.Listed(id, second.name, second.description, servicetest.When[:17]+"00.000Z", "alice")))

		// An edit by a command meets them, too.
		form, name := openForm(t, laptop, id), "by the operator"
		servicetest.Must(s.Store.EditEvent(t.Context(), idOf(t, id), models.EventEdit{Name: &name}))(t)
		form.description = "mine"
		form.send(laptop).Has(409, "by the operator")
	}, func(o *servicetest.Options) { o.Sessions.PerUser = 2 })
}

// Of any number of edits at the same time, of what all have seen, one is saved.
func TestEditsAtOnce(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		instances := []*servicetest.Service{s}
		if s.Database.Dialect == "postgres" {
			instances = append(instances, s.NewInstance())
		}
		alice := s.SignIn("alice")
		id := alice.Create("plaza", "n", servicetest.When)
		const n = 12
		for round := range 5 {
			seen := openForm(t, alice, id)
			var status [n]int
			servicetest.AtOnce(n, func(i int) {
				form := seen
				form.name = fmt.Sprintf("round %d, edit %d", round, i)
				status[i] = form.send(alice.On(instances[i%len(instances)])).Status
			})
			saved := slices.Index(status[:], 303)
			if saved < 0 || slices.Contains(status[saved+1:], 303) {
				t.Fatalf("%v", status)
			}
			alice.Get(servicetest.Plaza).Is(200, servicetest.List(servicetest.Listed(id, fmt.Sprintf("round %d, edit %d", round, saved), "", servicetest.When, "alice")))
		}
		var lines int
		for _, instance := range instances {
			lines += len(audits(instance))
		}
		servicetest.Is(t, lines, 5, "audit lines")
	})
}

// Cancelling asks once, and then the event is gone for everybody at once, however many have joined.
func TestCancelOwnEvent(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		key := servicetest.Header("Idempotency-Key", "k")
		id := alice.Post(servicetest.Plaza, servicetest.EventBody, key).Is(200, servicetest.Success).Header.Get("Event-Id")
		kept := alice.Create("plaza", "kept", "2031-01-01T00:00:00.000Z")
		bob.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		tag := bob.Get(servicetest.Plaza).Header.Get("ETag")

		alice.Get("/events/cancel?id="+id).Has(200, "<h1>Cancel this event?</h1>", "Chess", `action="/events/cancel"`)
		waiting := servicetest.Await(t, s, bob, servicetest.Plaza+"?wait=50", tag)
		after := servicetest.List(servicetest.Listed(kept, "kept", "", "2031-01-01T00:00:00.000Z", "alice"))
		press(alice, "cancel", id).Is(303, "").HasHeader("Location", "/events").HasHeader("Cache-Control", "no-store").SetsNoCookie()
		servicetest.Come(t, waiting).Is(200, after)
		bob.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).Is(200, after)
		bob.Post("/api/event/join/"+id, "").IsError(404, "event_not_found")
		bob.Delete("/api/event/"+id).IsError(404, "event_not_found")
		for _, c := range []*servicetest.Client{alice, bob} {
			_, _, page := ownLists(t, c, "")
			servicetest.Lacks(t, page, id)
		}
		press(alice, "cancel", id, servicetest.Header("Accept", "")).IsError(404, "event_not_found") // pressed twice
		lines := audits(s)
		if len(lines) != 1 {
			t.Fatalf("%q", lines)
		}
		servicetest.Contains(t, lines[0], `"action":"event remove","user":"`+alice.Session.UserID+`","session":"`,
			`"event":"`+id+`","created":"2`, `Z","client":"127.0.0.1"`)
		// The rows are detached, and an instance deletes them: nobody waits for that.
		servicetest.Is(t, s.Database.Count("rsvps"), 3, "RSVPs are left at once")
		servicetest.NoError(t, s.Store.SweepEvents(t.Context()))
		servicetest.Is(t, s.Database.Count("events"), 1, "events that are left")
		servicetest.Is(t, s.Database.Count("rsvps"), 1, "RSVPs that are left")
		// The key is free.
		servicetest.Is(t, alice.Post(servicetest.Plaza, servicetest.EventBody, key).Is(200, servicetest.Success).Header.Get("Event-Id"), id, "the event of the free key")
	})
}

func TestLeaveOnPage(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		id := alice.Create("plaza", "a", servicetest.When)
		bob.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		tag := alice.Get(servicetest.Plaza).Header.Get("ETag")
		waiting := servicetest.Await(t, s, alice, servicetest.Plaza+"?wait=50", tag)
		left := servicetest.List(servicetest.Listed(id, "a", "", servicetest.When, "alice"))
		bob.Submit("/events/leave?world=plaza", "id="+id).Is(303, "").HasHeader("Location", "/events?world=plaza").SetsNoCookie()
		servicetest.Come(t, waiting).Is(200, left)
		press(bob, "leave", id).Is(303, "") // pressed twice
		_, joined, _ := ownLists(t, bob, "")
		servicetest.Is(t, joined, nil, "what bob has joined")
		press(alice, "leave", id).Is(303, "") // a creator who leaves keeps the event
		if made, _, _ := ownLists(t, alice, ""); len(made) != 1 || made[0].does != "Edit;Cancel the event;" {
			t.Errorf("%+v", made)
		}
		press(bob, "leave", servicetest.IDOf(7), servicetest.Header("Accept", "")).IsError(404, "event_not_found")
		lines := audits(s)
		if len(lines) != 2 {
			t.Fatalf("%q", lines)
		}
		servicetest.Contains(t, lines[0], `"action":"event leave","user":"`+bob.Session.UserID)
		servicetest.Contains(t, lines[1], alice.Session.UserID)
	})
}

// Only what is one's own can be seen and changed, whatever id is asked for, and nobody learns what there is.
func TestEventsPageOfOthers(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		id := createWith(alice, "plaza", "secret name", "secret text", servicetest.When)
		bob.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		own := bob.Create("plaza", "own", "2031-01-01T00:00:00.000Z")
		orphan := alice.Create("plaza", "orphan", "2032-01-01T00:00:00.000Z")
		s.Database.Exec("UPDATE events SET creator_id = NULL WHERE id = ?", orphan)
		tag := bob.Get(servicetest.Plaza).Header.Get("ETag")
		stolen := openForm(t, alice, id)
		var first string
		for _, id := range []string{
			id, orphan, servicetest.IDOf(1), "", "x", strings.ToUpper(own), strings.ReplaceAll(own, "-", ""), "{" + own + "}", " " + own, own + "\x00",
			"00000000-0000-0000-0000-000000000000", "' OR 1=1 --", "%",
		} {
			form := stolen
			form.id, form.name = id, "mine now"
			for _, res := range []*servicetest.Response{
				bob.Get("/events/edit?id="+url.QueryEscape(id), asksForHTML), bob.Get("/events/cancel?id="+url.QueryEscape(id), asksForHTML), form.send(bob), press(bob, "cancel", id),
			} {
				res.SetsNoCookie().HasHeader("Cache-Control", "no-store")
				shown := strings.ReplaceAll(res.Body, res.Header.Get("X-Request-Id"), "ID")
				if first == "" {
					first = shown
				}
				if res.Status != 404 || shown != first || strings.Contains(shown, "secret") {
					t.Errorf("%q: %d %s", id, res.Status, res.Body)
				}
			}
		}
		bob.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).Is(304, "")
		servicetest.Is(t, audits(s), nil, "audit lines")
		// A link changes nothing, and neither do the id of the query and further ids of a form.
		bob.Submit("/events/cancel?id="+own, "").IsError(404, "event_not_found")
		bob.Submit("/events/cancel", "id=x&id="+own).IsError(404, "event_not_found")
		for _, body := range []string{
			"", "id=" + own, "id=" + own + "&name=n&description=&scheduledAt=", "%zz", openForm(t, bob, own).encode() + "&name=other",
			"id=" + own + "&shown=x&name=%ff&description=&scheduledAt=2030-01-01T00:00",
		} {
			if res := bob.Submit("/events/edit?name=n&description=d&scheduledAt=2030-01-01T00:00", body); res.Status != 400 && res.Status != 404 && res.Status != 409 {
				t.Errorf("%q: %d %s", body, res.Status, res.Body)
			}
		}
		bob.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).Is(304, "")
	})
}

// What changes an event needs a live session, found by its current refresh token alone, and the form of nobody is not even read.
func TestEventsPageNeedsASession(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		for kind, works := range map[string]bool{
			"both cookies": true, "the refresh token": true, "an expired JWT and the refresh token": true, "the JWT": false, "the JWT and a spent refresh token": false,
			"both cookies, signed out": false, "refresh tokens that differ": false, "none": false, "garbage": false,
		} {
			s.Run(t, kind, func(t *testing.T) {
				alice := s.SignIn("alice")
				id := alice.Create("plaza", "a", servicetest.When)
				form := openForm(t, alice, id)
				form.name = "edited"
				cookies := alice.Kind(kind)
				page := s.Client().Get("/events", cookies).SetsNoCookie()
				if strings.Contains(page.Body, nobodyIsSignedIn) == works || strings.Contains(page.Body, id) != works || page.Status != 200 {
					t.Errorf("%d %s", page.Status, page.Body)
				}
				for _, path := range []string{"/events/edit?id=" + id, "/events/cancel?id=" + id} {
					if page := s.Client().Get(path, cookies).SetsNoCookie(); strings.Contains(page.Body, "edited") || strings.Contains(page.Body, nobodyIsSignedIn) == works {
						t.Errorf("%d %s", page.Status, page.Body)
					}
				}
				script := servicetest.Header("Sec-Fetch-Mode", "cors")
				if !works {
					form.send(s.Client(), cookies).Is(303, "").HasHeader("Location", "/events").SetsNoCookie()
					press(s.Client(), "cancel", id, cookies).Is(303, "").HasHeader("Location", "/events").SetsNoCookie()
					press(s.Client(), "leave", id, cookies).Is(303, "").HasHeader("Location", "/events").SetsNoCookie()
					noPage := servicetest.Header("Accept", "*/*")
					form.send(s.Client(), cookies, script, noPage).IsError(401, "invalid_token").SetsNoCookie()
					press(s.Client(), "cancel", id, cookies, script, noPage).IsError(401, "invalid_token").SetsNoCookie()
					s.SignIn("bob").Get(servicetest.Plaza).Is(200, servicetest.List(servicetest.Listed(id, "a", "", servicetest.When, "alice")))
				} else {
					form.send(s.Client(), cookies, script).Is(204, "").SetsNoCookie()
					s.SignIn("bob").Get(servicetest.Plaza).Is(200, servicetest.List(servicetest.Listed(id, "edited", "", servicetest.When, "alice")))
				}
				s.Store.RemoveEvent(t.Context(), idOf(t, id))
			})
		}
		// A large form of nobody is refused before it has come.
		got := s.Raw("POST /events/edit HTTP/1.1\r\nHost: x\r\nSec-Fetch-Mode: navigate\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 60000\r\n\r\nid=")
		servicetest.Contains(t, got, "HTTP/1.1 303 ", "\r\nConnection: close\r\n", "\r\nLocation: /events\r\n")
	})
}

// A session that ends between the look at the page and the change, even while the form is on its way, changes nothing.
func TestSessionEndsMeanwhile(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		for _, what := range []string{"edit", "cancel", "leave"} {
			s.Run(t, what, func(t *testing.T) {
				alice := s.SignIn("alice")
				id := alice.Create("plaza", "a", servicetest.When)
				form := openForm(t, alice, id)
				form.name = "edited"
				body, text := servicetest.NewSlowBody()
				done, found := make(chan *servicetest.Response), make(chan struct{})
				go func() {
					done <- alice.Submit("/events/"+what, "x", servicetest.Chunked, func(r *http.Request) {
						r.Header.Set("Expect", "100-continue") // the service asks for the body once it has found the session
						*r = *r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(found) }}))
						r.Body = body
					})
				}()
				text <- "x=y&"
				<-found
				servicetest.Must(s.Store.RevokeUser(t.Context(), idOf(t, alice.Session.UserID), models.ID{}))(t)
				text <- form.encode()
				close(text)
				(<-done).Is(303, "").HasHeader("Location", "/events").SetsNoCookie()
				bob := s.SignIn("bob")
				bob.Get(servicetest.Plaza).Is(200, servicetest.List(servicetest.Listed(id, "a", "", servicetest.When, "alice")))
				servicetest.Must(s.Store.RemoveEvent(t.Context(), idOf(t, id)))(t)
			})
		}
		servicetest.Is(t, audits(s), nil, "audit lines")
	})
}

// The page counts among the lists that a user reads at once: who opens it many times has it queued, and takes the database from nobody.
func TestPagesOfOneUserAtOnce(t *testing.T) {
	t.Parallel()
	s := servicetest.Start(t, servicetest.Postgres(t))
	alice := s.SignIn("alice")
	const n = 24
	tx := servicetest.BeginTx(t, s.Database, "LOCK TABLE rsvps IN ACCESS EXCLUSIVE MODE")
	var wait sync.WaitGroup
	wait.Go(func() {
		servicetest.AtOnce(n, func(int) {
			alice.Get("/events", servicetest.Navigates).Has(200)
		})
	})
	const reads = `worldevents_held{of="list_readers"}`
	servicetest.Eventually(t, "a quarter of the connections reads, and no more", func() bool { return servicetest.Metric(t, s, reads) == float64(s.Options.DBMaxConns/4) })
	tx.Rollback()
	wait.Wait()
	servicetest.Is(t, servicetest.Metric(t, s, reads), 0, "readings are left")
}

// Changes of the page count among the user's writes, and what is too much is refused before it is read.
func TestEventsPageWriteRate(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		id := alice.Create("plaza", "a", servicetest.When)
		script := []servicetest.RequestOption{servicetest.AsForm, servicetest.Header("Sec-Fetch-Mode", "cors")}
		for _, what := range []string{"edit", "cancel", "leave"} {
			alice.Post("/events/"+what, "id="+id, script...).IsError(429, "rate_limited").HasHeader("Retry-After", "1").SetsNoCookie()
			press(alice, what, id).Has(429, "Too many requests")
		}
		press(bob, "leave", id).Is(303, "")
		bob.Post("/api/event/join/"+id, "").IsError(429, "rate_limited")
		made, _, _ := ownLists(t, alice, "")
		servicetest.Is(t, len(made), 1, "events")
	}, func(o *servicetest.Options) { o.WriteRate = 0.001 })
}

var morePattern = regexp.MustCompile(`<p><a href="([^"]+)">(?:Later|Earlier) events that you`)

// A thousand events are shown in pages, each once.
func TestThousandOwnEvents(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		s.Clock.Freeze(servicetest.At(2030))
		alice := s.SignIn("alice")
		servicetest.AddEvents(s, "past", 8001, 500, 2028, "")
		servicetest.AddEvents(s, "coming", 8002, 500, 2031, "")
		servicetest.AddEvents(s, "others", 8003, 100, 2031, "")
		s.Database.Exec("UPDATE events SET creator_id = ? WHERE world_id <> 'others'", alice.Session.UserID)
		s.Database.Exec("INSERT INTO rsvps (event_number, created_at, user_number, username) SELECT e.number, e.created_at, u.number, u.username FROM events e, users u WHERE e.world_id = 'others'")
		for _, test := range []struct {
			query, list string
			n           int
			descending  bool
		}{{"", "made", 500, false}, {"?past=true", "made", 500, true}, {"?list=made&world=coming", "made", 500, false}, {"?list=joined", "joined", 100, false}} {
			var times []string
			seen := map[string]bool{}
			for query, pages := test.query, 0; query != "-"; pages++ {
				made, joined, page := ownLists(t, alice, query)
				if test.list == "joined" {
					made = joined
				}
				for _, e := range made {
					if seen[e.id] {
						t.Fatalf("%s is shown twice", e.id)
					}
					seen[e.id] = true
					times = append(times, e.at)
				}
				query = "-"
				for _, m := range morePattern.FindAllStringSubmatch(page, -1) {
					if next := html.UnescapeString(m[1]); strings.Contains(next, "list="+test.list) {
						query = strings.TrimPrefix(next, "/events")
					}
				}
				if len(made) > 50 || pages > 40 {
					t.Fatalf("%d events on page %d", len(made), pages)
				}
			}
			if test.descending {
				slices.Reverse(times)
			}
			if len(seen) != test.n || !slices.IsSorted(times) {
				t.Errorf("%q: %d events", test.query, len(seen))
			}
		}
	})
}

// Names of all scripts are shown as they are, and no text becomes markup.
func TestEventsPageEscapes(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		for i, text := range []string{
			`"><script>alert(1)</script>`, `</textarea></title><img src=x onerror=alert(1)>`, `' onfocus='alert(1)`, "javascript:alert(1)", "{{.}} <!-- & &amp; &lt;",
			"مساء الخير", "ערב טוב", "夜の音楽会", "สวัสดี", "नमस्ते", "👩‍👩‍👧‍👦 🏳️‍🌈", "\u202eevil\u202c", "Z̸͎͠a̵l̴g̶o̷",
		} {
			user := s.SignIn(fmt.Sprintf("user %d %s", i, text))
			world := fmt.Sprint(i, text)
			id := createWith(user, world, text, "\n"+text+"\n", servicetest.When)
			made, _, page := ownLists(t, user, "")
			servicetest.Is(t, made, []ownEntry{{id, text, world, "2030-01-02T03:04:05Z", "Edit;Leave;Cancel the event;"}}, "what was made")
			form := openForm(t, user, id)
			servicetest.Is(t, form.name, text, "the name in the form")
			servicetest.Is(t, form.description, "\n"+text+"\n", "the description in the form")
			narrowed, _, _ := ownLists(t, user, "?world="+url.QueryEscape(world))
			servicetest.Is(t, len(narrowed), 1, "events in %q", world)
			stale := form
			stale.name, stale.shown = text+"!", "x"
			for _, page := range []string{
				page, user.Get("/events?world=" + url.QueryEscape(world)).Body, user.Get("/events/edit?id=" + id).Body, user.Get("/events/cancel?id=" + id).Body, stale.send(user).Body,
			} {
				if n := strings.Count(page, "<script"); n != 1 || strings.Contains(page, "<img") || regexp.MustCompile(`<[^>"]*("[^"]*"[^>"]*)*\son\w+=`).MatchString(page) || regexp.MustCompile(`(href|src|action)="javascript:`).MatchString(page) {
					t.Errorf("%q: %d scripts in %s", text, n, page)
				}
			}
		}
	})
}

// Without EVENTS_PAGE there is nothing of it, and no link to it.
func TestEventsPageOff(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, func(o *servicetest.Options) { o.EventsPage, o.Docs = false, true })
	alice := s.SignIn("alice")
	id := alice.Create("plaza", "a", servicetest.When)
	for _, path := range []string{"/events", "/events/edit?id=" + id, "/events/cancel?id=" + id, "/events/" + id + ".ics"} {
		alice.Get(path).IsError(404, "not_found")
	}
	for _, what := range []string{"edit", "cancel", "leave"} {
		press(alice, what, id).IsError(404, "not_found")
	}
	for _, path := range []string{"/sessions", "/docs"} {
		servicetest.Lacks(t, alice.Get(path).Has(200, "Signed in as").Body, `/events"`)
	}
}
