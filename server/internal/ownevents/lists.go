package ownevents

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"worldevents/models"
	"worldevents/server/internal/eventlist"
	"worldevents/server/internal/pages"
)

// month is the format of a month.
const month = "2006-01"

// pageSize bounds the events of a list on a page.
const pageSize = 50

// The lists in the query.
const (
	made   = "made"
	joined = "joined"
)

// view is the query of the page.
type view struct {
	world string // "" for all; may be invalid
	list  string // made or joined, "" for both
	past  bool
	after string // the cursor where the list begins, or ""
}

// readView reads a query, without an invalid list or cursor. An invalid world has no events.
func readView(query url.Values) view {
	v := view{world: query.Get("world"), past: query.Get("past") == "true"}
	if list := query.Get("list"); list == made || list == joined {
		v.list = list
		if _, ok := eventlist.ReadCursor(v.world, query.Get("after")); ok {
			v.after = query.Get("after")
		}
	}
	return v
}

// path adds the view to a path, and more names and values of parameters.
func (v view) path(path string, more ...string) string {
	query := make(url.Values)
	for i := 0; i < len(more); i += 2 {
		query.Set(more[i], more[i+1])
	}
	for name, value := range map[string]string{"world": v.world, "list": v.list, "after": v.after} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if v.past {
		query.Set("past", "true")
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// showLists shows both lists, or that of the query.
func (s *Service) showLists(c echo.Context, v visitor) error {
	events := &pages.Events{World: v.view.world, List: v.view.list, Past: v.view.past}
	if v.view.world != "" {
		all := v.view
		all.world, all.after = "", ""
		events.All = s.Pages.Base + all.path("/events")
	}
	if v.view.list != "" {
		events.Back = s.Pages.Base + view{world: v.view.world}.path("/events")
	}
	var err error
	if events.Lists, err = s.lists(c.Request().Context(), v); err != nil {
		return err
	}
	return s.render(c, http.StatusOK, v, events)
}

// lists reads the lists of the view. They share the bounds of listEvents: thousands of events cost the database many times a write.
func (s *Service) lists(ctx context.Context, v visitor) (lists []pages.EventList, err error) {
	ctx, end, err := s.BeginReading(ctx, v.UserID)
	if err != nil {
		return nil, err
	}
	defer end()
	for _, list := range []string{made, joined} {
		if v.view.list != "" && v.view.list != list {
			continue
		}
		one, err := s.list(ctx, v, list)
		if err != nil {
			return nil, err
		}
		lists = append(lists, one)
	}
	return lists, nil
}

func (s *Service) list(ctx context.Context, v visitor, name string) (list pages.EventList, err error) {
	var found []models.OwnEvent
	var more bool
	if utf8.ValidString(v.view.world) && !strings.Contains(v.view.world, "\x00") { // PostgreSQL refuses other texts
		after, _ := eventlist.ReadCursor(v.view.world, v.view.after) // the zero position without one
		found, more, err = s.Store.OwnEvents(ctx, models.OwnFilter{
			User: v.UserID, Joined: name == joined, World: v.view.world, Past: v.view.past, After: after, Limit: pageSize,
		})
	}
	if err != nil {
		return list, err
	}
	at := view{world: v.view.world, list: name, past: v.view.past}
	list = pages.EventList{Name: name, Joined: name == joined, Past: v.view.past}
	if more {
		last := found[len(found)-1]
		next := at
		next.after = eventlist.WriteCursor(v.view.world, models.Position{ScheduledAt: last.ScheduledAt, ID: last.ID})
		list.More = s.Pages.Base + next.path("/events")
	}
	at.past = !at.past
	list.Other = s.Pages.Base + at.path("/events")
	for _, e := range found {
		entry := s.entry(v, e, name == made)
		last := len(list.Months) - 1
		if last < 0 || list.Months[last].At.Format(month) != entry.At.Format(month) {
			list.Months = append(list.Months, pages.EventMonth{At: entry.At})
			last++
		}
		list.Months[last].Events = append(list.Months[last].Events, entry)
	}
	return list, nil
}

func (s *Service) entry(v visitor, e models.OwnEvent, own bool) pages.Event {
	entry := pages.Event{ID: e.ID.String(), World: e.WorldID, Name: e.Name, At: e.ScheduledAt.UTC(), Attendees: e.Attendees, CountedAll: e.Attendees < models.MaxAttendees}
	entry.Calendar = s.Pages.Base + "/events/" + entry.ID + ".ics"
	narrowed := v.view
	narrowed.world, narrowed.after = e.WorldID, ""
	entry.InWorld = s.Pages.Base + narrowed.path("/events")
	if own {
		entry.Edit = s.Pages.Base + v.view.path("/events/edit", "id", entry.ID)
		entry.Cancel = s.Pages.Base + v.view.path("/events/cancel", "id", entry.ID)
	}
	if e.Joined {
		entry.Leave = s.Pages.Base + v.view.path("/events/leave")
	}
	return entry
}
