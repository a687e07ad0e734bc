package pages

import (
	"strings"

	"github.com/labstack/echo/v4"
)

// errorView is how errors of a request are shown to a person.
type errorView struct{ template, returnTo string }

const errorViewKey = "worldevents.errorView"

// ShowErrors makes errors a page of this template if the request asks for HTML.
func ShowErrors(template string) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if strings.Contains(c.Request().Header.Get("Accept"), "text/html") {
				c.Set(errorViewKey, &errorView{template: template})
			}
			c.Response().Header().Set("Cache-Control", "no-store")
			return next(c)
		}
	}
}

// ReturnTo has the page of an error, if there is to be one, lead to a sign-in that leads on to target.
func ReturnTo(c echo.Context, target string) {
	if view, ok := c.Get(errorViewKey).(*errorView); ok {
		view.returnTo = target
	}
}

// WriteError writes an error as a page where ShowErrors says so, and reports whether it does.
func (p *Pages) WriteError(c echo.Context, status int, message, requestID string) bool {
	view, ok := c.Get(errorViewKey).(*errorView)
	if ok {
		p.Render(c, status, view.template, Policy, Page{Error: message, RequestID: requestID, ReturnTo: view.returnTo})
	}
	return ok
}
