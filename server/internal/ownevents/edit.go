package ownevents

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"worldevents/gen"
	"worldevents/models"
	"worldevents/server/internal/contract"
	"worldevents/server/internal/observe"
	"worldevents/server/internal/pages"
	"worldevents/server/internal/signin"
)

// members are the members of an event in the contract, and the names of the controls of a form.
var members = [...]string{"name", "description", "scheduledAt"}

// fields are the texts of the controls in a form, by member.
type fields map[string]string

// minute is the format of a control of type datetime-local.
const minute = "2006-01-02T15:04"

// A control drops or replaces line breaks (HTML, "value sanitization algorithm" and "API value"), and a form sends each as CR LF.
var (
	withoutBreaks = strings.NewReplacer("\r", "", "\n", "")
	lineFeeds     = strings.NewReplacer("\r\n", "\n", "\r", "\n")
)

// shown are the fields of an event.
func shown(e models.Event) fields {
	return fields{
		"name": withoutBreaks.Replace(e.Name), "description": lineFeeds.Replace(e.Description), "scheduledAt": e.ScheduledAt.UTC().Format(minute),
	}
}

// digest identifies in a form the fields that its user has seen.
func (f fields) digest() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", f["name"], f["description"], f["scheduledAt"]))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// typed are the fields in a sent form. It returns signin.ErrForm for forms that no browser sends.
func typed(form url.Values) (fields, error) {
	f := make(fields)
	for _, member := range members {
		if len(form[member]) != 1 || !utf8.ValidString(form.Get(member)) {
			return nil, signin.ErrForm
		}
		f[member] = form.Get(member)
	}
	f["description"] = lineFeeds.Replace(f["description"])
	return f, nil
}

// dateTime translates a time of a form for the contract. One without a zone is in UTC, and may have seconds.
func dateTime(text string) string {
	for _, format := range []string{minute, minute + ":05"} {
		if at, err := time.Parse(format, text); err == nil {
			return at.Format(time.RFC3339Nano)
		}
	}
	return text
}

// changes are the changed members. A field that comes back as shown changes nothing: the event may have seconds, and other line breaks.
func (f fields) changes(now models.Event) map[string]string {
	was, changed := shown(now), make(map[string]string)
	for _, member := range members {
		if f[member] != was[member] {
			changed[member] = f[member]
		}
	}
	if at, ok := changed["scheduledAt"]; ok {
		changed["scheduledAt"] = dateTime(at)
	}
	return changed
}

// with returns an event with valid changes.
func with(e models.Event, changes map[string]string) models.Event {
	if name, ok := changes["name"]; ok {
		e.Name = name
	}
	if description, ok := changes["description"]; ok {
		e.Description = description
	}
	if text, ok := changes["scheduledAt"]; ok {
		at, _ := gen.ParseDateTime(text)
		e.ScheduledAt = at.Time().Truncate(time.Millisecond)
	}
	return e
}

func (s *Service) showEdit(c echo.Context, v visitor) error {
	event, err := s.Store.FindOwnEvent(c.Request().Context(), v.UserID, named(c, c.QueryParam("id")))
	if err != nil {
		return err
	}
	return s.renderForm(c, http.StatusOK, v, event, shown(event), pages.EventForm{})
}

// renderForm shows the fields in a form of the event as it is now. form has the faults, and Edited.
func (s *Service) renderForm(c echo.Context, status int, v visitor, now models.Event, f fields, form pages.EventForm) error {
	is := shown(now)
	form.ID, form.World, form.Shown = now.ID.String(), now.WorldID, is.digest()
	form.Action = s.Pages.Base + v.view.path("/events/edit")
	field := func(id, member string) pages.EventField {
		return pages.EventField{ID: id, Text: f[member], Fault: form.Faults[member], Edited: form.Edited && f[member] != is[member], Now: is[member]}
	}
	form.Name, form.Description, form.Time = field("name", "name"), field("description", "description"), field("time", "scheduledAt")
	form.Time.NowAt = now.ScheduledAt.UTC()
	return s.render(c, status, v, &pages.Events{Back: s.Pages.Base + v.view.path("/events"), Edit: &form})
}

// edit changes an event that is still as the form showed it. Otherwise the user sees both, and decides.
func (s *Service) edit(c echo.Context, v visitor) error {
	r := c.Request()
	ctx, id := r.Context(), named(c, r.PostForm.Get("id"))
	f, err := typed(r.PostForm)
	if err != nil {
		return err
	}
	now, err := s.Store.FindOwnEvent(ctx, v.UserID, id)
	if err != nil {
		return err
	}
	changes := f.changes(now)
	if len(changes) == 0 {
		return s.SignIn.LeadTo(c, v.view.path("/events"))
	}
	var form pages.EventForm
	var bad contract.FieldsError
	if err := s.CheckEvent(changes); err != nil && !errors.As(err, &bad) {
		return err
	}
	form.Faults, _ = bad.Split()
	form.Edited = r.PostForm.Get("shown") != shown(now).digest()
	if bad == nil && !form.Edited {
		err := s.Store.EditOwnEvent(ctx, v.Caller, now, with(now, changes))
		if err == nil {
			// A name or a description may be what had to go, so texts are not logged.
			s.Observer.AuditLine(ctx, "event edit", v.Caller, "event", now.ID, "world", now.WorldID, "changed", slices.Sorted(maps.Keys(changes)))
			return s.SignIn.LeadTo(c, v.view.path("/events")+"#event-"+now.ID.String())
		}
		if !errors.Is(err, models.ErrEdited) {
			return err
		}
		form.Edited = true
		if now, err = s.Store.FindOwnEvent(ctx, v.UserID, id); err != nil {
			return err
		}
	}
	status, req := http.StatusBadRequest, observe.FromContext(ctx)
	req.Code = "validation_failed"
	if form.Edited {
		status, req.Code = http.StatusConflict, "edited_meanwhile"
	}
	return s.renderForm(c, status, v, now, f, form)
}
