package ownevents

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"worldevents/server/internal/pages"
)

func (s *Service) showCancel(c echo.Context, v visitor) error {
	event, err := s.Store.FindOwnEvent(c.Request().Context(), v.UserID, named(c, c.QueryParam("id")))
	if err != nil {
		return err
	}
	return s.render(c, http.StatusOK, v, &pages.Events{
		Back: s.Pages.Base + v.view.path("/events"),
		Cancel: &pages.Event{
			ID: event.ID.String(), World: event.WorldID, Name: event.Name, At: event.ScheduledAt.UTC(), Cancel: s.Pages.Base + v.view.path("/events/cancel"),
		},
	})
}

// cancel removes an event of the user. Its audit line is that of the command event remove, so that a restore repeats it. The time of
// creation distinguishes a later event with the same id, which an Idempotency-Key can make.
func (s *Service) cancel(c echo.Context, v visitor) error {
	ctx, id := c.Request().Context(), named(c, c.Request().PostForm.Get("id"))
	created, err := s.Store.CancelEvent(ctx, v.Caller, id)
	if err != nil {
		return err
	}
	s.Observer.AuditLine(ctx, "event remove", v.Caller, "event", id, "created", created.UTC().Format(time.RFC3339Nano)) // as text it would be rounded
	return s.SignIn.LeadTo(c, v.view.path("/events"))
}
