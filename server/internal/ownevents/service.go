package ownevents

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"worldevents/models"
	"worldevents/server/internal/observe"
	"worldevents/server/internal/pages"
	"worldevents/server/internal/signin"
)

// Service serves the page. Its methods may be called concurrently.
type Service struct {
	Store    *models.Store
	Pages    *pages.Pages
	SignIn   *signin.Service
	Observer *observe.Observer
	// BeginReading waits for a turn of the user to read, and returns the context for that.
	BeginReading func(ctx context.Context, user models.ID) (reading context.Context, end func(), err error)
	// MayWrite counts a write of a user, and returns an error beyond the rate.
	MayWrite func(user models.ID) error
	// CheckEvent returns a contract.FieldsError for members that createEvent would refuse. Others may be missing.
	CheckEvent func(members map[string]string) error
}

// Register serves the page and its forms.
func (s *Service) Register(r pages.Router) {
	onErrors := pages.ShowErrors("Your events", "/events", "Show the events")
	get := func(id, path string, show func(echo.Context, visitor) error) {
		r.Get(id, path, s.SignIn.WithDeadline(s.forUser(show)), onErrors)
	}
	post := func(id, path string, change func(echo.Context, visitor) error) {
		r.PostLarge(id, path, s.SignIn.WithDeadline(signin.ParseForm(s.byUser(change))), onErrors, s.SignIn.WithDeadline, s.findUser)
	}
	get("showEvents", "/events", s.showLists)
	r.Get("downloadEvent", "/events/:name", s.SignIn.WithDeadline(s.calendar), onErrors)
	get("showEdit", "/events/edit", s.showEdit)
	post("editEvent", "/events/edit", s.edit)
	get("showCancel", "/events/cancel", s.showCancel)
	post("cancelEvent", "/events/cancel", s.cancel)
	post("leaveOnPage", "/events/leave", s.leave)
}

// visitor is the sender of a request.
type visitor struct {
	models.Caller
	username string // from a JWT, or ""
	view     view
}

const visitorKey = "worldevents.visitor"

// visitorOf returns models.ErrSignedOut without a session.
func (s *Service) visitorOf(c echo.Context) (visitor, error) {
	own, username, err := s.SignIn.Current(c.Request())
	if err == nil {
		observe.FromContext(c.Request().Context()).SetUser(own.UserID.String())
	}
	return visitor{own, username, readView(c.QueryParams())}, err
}

// forUser shows a page to a signed-in user. Others get the page without events.
func (s *Service) forUser(show func(echo.Context, visitor) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		v, err := s.visitorOf(c)
		switch {
		case errors.Is(err, models.ErrSignedOut):
			return s.render(c, http.StatusOK, v, nil)
		case err != nil:
			return err
		}
		return show(c, v)
	}
}

// findUser finds the user of a form, and counts the write, before the body is read.
func (s *Service) findUser(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		v, err := s.visitorOf(c)
		if err == nil {
			err = s.MayWrite(v.UserID)
		}
		if err == nil {
			c.Set(visitorKey, v)
			return next(c)
		}
		if c.Request().ContentLength != 0 {
			c.Response().Header().Set("Connection", "close") // else net/http would read the body before it writes the response
		}
		if errors.Is(err, models.ErrSignedOut) {
			return s.SignIn.LeadNobody(c, v.view.path("/events"))
		}
		return err
	}
}

// byUser handles the form of the user of findUser, whose session may have ended since.
func (s *Service) byUser(change func(echo.Context, visitor) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		v := c.Get(visitorKey).(visitor)
		err := change(c, v)
		if errors.Is(err, models.ErrSignedOut) {
			return s.SignIn.LeadNobody(c, v.view.path("/events"))
		}
		return err
	}
}

// render writes the page; without events it says that nobody is signed in.
func (s *Service) render(c echo.Context, status int, v visitor, events *pages.Events) error {
	return s.Pages.RenderAs(c, status, "events.html", pages.ScriptPolicy, pages.Page{
		User: v.username, Events: events, ReturnTo: s.Pages.Base + v.view.path("/events"),
	})
}

// named parses the id of an event, and sets it in the log line. The zero id, for an invalid text, belongs to no event.
func named(c echo.Context, text string) models.ID {
	id, err := models.ParseID(text)
	if err == nil {
		observe.FromContext(c.Request().Context()).EventID = text
	}
	return id
}

func (s *Service) leave(c echo.Context, v visitor) error {
	ctx, id := c.Request().Context(), named(c, c.Request().PostForm.Get("id"))
	left, err := s.Store.LeaveEvent(ctx, v.Caller, id)
	if err != nil {
		return err
	}
	if left {
		s.Observer.AuditLine(ctx, "event leave", v.Caller, "event", id)
	}
	return s.SignIn.LeadTo(c, v.view.path("/events"))
}
