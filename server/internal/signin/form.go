package signin

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"worldevents/models"
	"worldevents/server/internal/pages"
	"worldevents/server/internal/session"
)

func (s *Service) signInPage(c echo.Context) error {
	return s.Pages.Render(c, http.StatusOK, "sign-in.html", s.signInPolicy(), pages.Page{ReturnTo: c.QueryParam("return_to")})
}

// refuseUnknownHost refuses a Host other than this machine, an IP address or the host of the public address: under another name that leads
// here (DNS rebinding) a page would be of this origin to browsers, and could sign in.
func (s *Service) refuseUnknownHost(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		host := (&url.URL{Host: strings.ToLower(c.Request().Host)}).Hostname()
		_, err := netip.ParseAddr(host)
		if err == nil || host == "localhost" || strings.HasSuffix(host, ".localhost") || host == strings.ToLower(s.BaseURL.Hostname()) {
			return next(c)
		}
		return ErrUnknownHost
	}
}

// signInPolicy is pages.Policy with the targets of the form: browsers apply form-action to redirects.
func (s *Service) signInPolicy() string {
	const own = "form-action 'self'"
	return strings.Replace(pages.Policy, own, strings.Join(append([]string{own}, s.ReturnOrigins...), " "), 1)
}

// signIn signs in by name without proof, in development only.
func (s *Service) signIn(c echo.Context) error {
	r := c.Request()
	returnTo := r.Form.Get("return_to")
	pages.LeadOn(c, signInPath(returnTo))
	issued, err := s.ByName(r.Context(), models.Who{Username: r.PostForm.Get("username")}, true)
	if err != nil {
		return err
	}
	s.outcomes.WithLabelValues(byForm, signInDone).Inc()
	s.Sessions.ReplaceCookies(c.Response().Header(), session.ReadCookies(r.Header), issued)
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.Redirect(http.StatusSeeOther, s.safeReturnURL(returnTo))
}
