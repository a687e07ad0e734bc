package ownevents

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
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

// fields are what a form shows and takes of an event, as the texts of its controls.
type fields struct{ name, description, scheduledAt string }

// minute is how a control of type datetime-local has a time.
const minute = "2006-01-02T15:04"

// A control drops or replaces line breaks of its value (HTML, "value sanitization algorithm" and "API value"), and a form sends each as
// CR LF.
var (
	withoutBreaks = strings.NewReplacer("\r", "", "\n", "")
	lineFeeds     = strings.NewReplacer("\r\n", "\n", "\r", "\n")
)

// shown are the fields of an event in a form.
func shown(e models.Event) fields {
	return fields{withoutBreaks.Replace(e.Name), lineFeeds.Replace(e.Description), e.ScheduledAt.UTC().Format(minute)}
}

// digest stands for fields in a form, which shows by it what its user has seen.
func (f fields) digest() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", f.name, f.description, f.scheduledAt))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// typed are the fields that a form has sent. It returns signin.ErrForm if it lacks one, or for what no browser sends.
func typed(form url.Values) (f fields, err error) {
	for _, field := range []struct {
		name string
		into *string
	}{{"name", &f.name}, {"description", &f.description}, {"scheduledAt", &f.scheduledAt}} {
		if len(form[field.name]) != 1 || !utf8.ValidString(form.Get(field.name)) {
			return f, signin.ErrForm
		}
		*field.into = form.Get(field.name)
	}
	f.description = lineFeeds.Replace(f.description)
	return f, nil
}

// local is a time without a zone, which a form means in UTC. The seconds of its first spelling are missing.
var (
	local       = regexp.MustCompile(`^\d{4,}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?$`)
	withoutZone = len(minute)
)

// dateTime is a time of a form as the contract spells it.
func dateTime(text string) string {
	switch {
	case !local.MatchString(text):
		return text
	case len(text) == withoutZone:
		return text + ":00Z"
	}
	return text + "Z"
}

// members are the members of the contract that the fields change in an event. A field that has come back as it was shown changes
// nothing: the event may have seconds, and other line breaks.
func (f fields) members(now models.Event) map[string]string {
	was, members := shown(now), make(map[string]string)
	if f.name != was.name {
		members["name"] = f.name
	}
	if f.description != was.description {
		members["description"] = f.description
	}
	if f.scheduledAt != was.scheduledAt {
		members["scheduledAt"] = dateTime(f.scheduledAt)
	}
	return members
}

// with is an event with the values of members, which fit the contract.
func with(e models.Event, members map[string]string) models.Event {
	if name, ok := members["name"]; ok {
		e.Name = name
	}
	if description, ok := members["description"]; ok {
		e.Description = description
	}
	if text, ok := members["scheduledAt"]; ok {
		at, _ := gen.ParseDateTime(text)
		e.ScheduledAt = at.Time().Truncate(time.Millisecond)
	}
	return e
}

// showEdit shows the form for an event.
func (s *Service) showEdit(c echo.Context, v visitor) error {
	event, err := s.Store.FindOwnEvent(c.Request().Context(), v.UserID, named(c, c.QueryParam("id")))
	if err != nil {
		return err
	}
	return s.renderForm(c, http.StatusOK, v, event, shown(event), pages.EventForm{})
}

// renderForm shows the fields in a form of the event as it is now. The form has its faults, and says whether it was edited meanwhile.
func (s *Service) renderForm(c echo.Context, status int, v visitor, now models.Event, f fields, form pages.EventForm) error {
	is := shown(now)
	form.ID, form.World, form.Shown = now.ID.String(), now.WorldID, is.digest()
	form.Action = s.Pages.Base + v.view.path("/events/edit")
	field := func(id, member, text, now string) pages.EventField {
		return pages.EventField{ID: id, Text: text, Fault: form.Faults[member], Edited: form.Edited && text != now, Now: now}
	}
	form.Name = field("name", "name", f.name, is.name)
	form.Description = field("description", "description", f.description, is.description)
	form.Time = field("time", "scheduledAt", f.scheduledAt, is.scheduledAt)
	form.Time.NowAt = now.ScheduledAt.UTC()
	if at, err := gen.ParseDateTime(dateTime(f.scheduledAt)); err == nil && !local.MatchString(f.scheduledAt) {
		form.Time.Text = at.Time().Format("2006-01-02T15:04:05") // what the control can show
	}
	return s.render(c, status, v, &pages.Events{Back: s.Pages.Base + v.view.path("/events"), Edit: &form})
}

// edit changes an event as the form says, if it is still as the form has shown it. Otherwise the user sees both, and decides.
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
	members := f.members(now)
	if len(members) == 0 {
		return s.SignIn.LeadTo(c, v.view.path("/events"))
	}
	var form pages.EventForm
	var bad contract.FieldsError
	if err := s.CheckEvent(members); err != nil && !errors.As(err, &bad) {
		return err
	}
	form.Faults, _ = bad.Split()
	form.Edited = r.PostForm.Get("shown") != shown(now).digest()
	if bad == nil && !form.Edited {
		err := s.Store.EditOwnEvent(ctx, v.Caller, now, with(now, members))
		if err == nil {
			s.auditEdit(c, v, now, members)
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

// auditEdit names the members and not their texts: a name or a description may be what had to go.
func (s *Service) auditEdit(c echo.Context, v visitor, now models.Event, members map[string]string) {
	var changed []string
	for _, member := range []string{"name", "description", "scheduledAt"} {
		if _, ok := members[member]; ok {
			changed = append(changed, member)
		}
	}
	s.Observer.AuditLine(c.Request().Context(), "event edit", v.Caller, "event", now.ID, "world", now.WorldID, "changed", changed)
}
