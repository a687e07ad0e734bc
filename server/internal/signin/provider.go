package signin

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"worldevents/models"
	"worldevents/server/internal/observe"
	"worldevents/server/internal/oidc"
	"worldevents/server/internal/pages"
	"worldevents/server/internal/session"
)

const (
	flowCookieTTL = time.Hour // how long a browser keeps the target of a sign-in
	maxFlowBytes  = 4096      // of all flow cookies: each request sends them
)

// flowCookiePrefix begins with __Host-, where possible, which keeps other hosts from setting the cookies (RFC 6265bis section 4.1.3.2).
func flowCookiePrefix(o Options) string {
	const name = "signIn-"
	if o.Pages.Base == "" && o.BaseURL.Scheme == "https" && !o.Development {
		return "__Host-" + name
	}
	return name
}

// beginSignIn leads to the provider. It clears the oldest of too many flow cookies, which a browser sends first (RFC 6265 section 5.4).
func (s *Service) beginSignIn(c echo.Context) error {
	if !isTopLevel(c.Request()) {
		return ErrNotTopLevel
	}
	r, h := c.Request(), c.Response().Header()
	flow := s.Provider.NewFlow(s.safeReturnURL(c.QueryParam("return_to")))
	pages.LeadOn(c, signInPath(flow.ReturnTo))
	to, err := s.Provider.AuthCodeURL(r.Context(), observe.FromContext(r.Context()).ClientNetwork(), flow)
	if err != nil {
		return err
	}
	size := len(flow.Cookie())
	for _, cookie := range slices.Backward(r.Cookies()) {
		if id, ok := strings.CutPrefix(cookie.Name, s.flowPrefix); ok {
			if size += len(cookie.String()); size > maxFlowBytes {
				s.setFlowCookie(h, id, "", -1)
			}
		}
	}
	s.setFlowCookie(h, flow.ID(), flow.Cookie(), int(flowCookieTTL/time.Second))
	return c.Redirect(http.StatusSeeOther, to)
}

// finishSignIn handles the callback of the provider, and signs in if it belongs to a flow of this browser. The first callback with the
// state ends the flow, unless there was no place at the provider: then the browser may load the address again.
func (s *Service) finishSignIn(c echo.Context) error {
	r, h := c.Request(), c.Response().Header()
	if !isTopLevel(r) {
		return ErrNotTopLevel
	}
	callback := r.URL.Query()
	var kept string
	if cookie, err := r.Cookie(s.flowPrefix + oidc.FlowID(callback.Get("state"))); err == nil {
		kept = cookie.Value
	}
	flow, err := s.Provider.ResumeFlow(kept, callback)
	returnTo := s.safeReturnURL(flow.ReturnTo) // the configuration may have changed
	pages.LeadOn(c, signInPath(returnTo))
	if err != nil {
		return err
	}
	user, err := s.Provider.Exchange(r.Context(), observe.FromContext(r.Context()).ClientNetwork(), flow, callback)
	if !errors.Is(err, oidc.ErrBusy) {
		s.setFlowCookie(h, flow.ID(), flow.Ended(), int(flowCookieTTL/time.Second))
	}
	if err != nil {
		return err
	}
	issued, err := s.begin(r.Context(), func(in models.SignIn) (models.Grant, error) {
		in.ProviderSID = user.SID
		return s.Store.SignInExternal(r.Context(), user.Issuer, user.Subject, user.Username, in) // makes an unknown one
	})
	if err != nil {
		return err
	}
	s.Sessions.ReplaceCookies(h, session.ReadCookies(r.Header), issued)
	s.outcomes.WithLabelValues(byProvider, signInDone).Inc()
	return c.Redirect(http.StatusSeeOther, returnTo)
}

// backChannelLogout ends the sessions of a logout token (OpenID Connect Back-Channel Logout 1.0 section 2.5), also those that began within
// the second of its iat: one sign-in more is better than a session that should have ended.
func (s *Service) backChannelLogout(c echo.Context) error {
	r, req := c.Request(), observe.FromContext(c.Request().Context())
	c.Response().Header().Set("Cache-Control", "no-store")
	if err := s.MaySend(req.ClientNetwork()); err != nil {
		return err
	}
	ended, err := s.Provider.VerifyLogout(r.Context(), req.ClientNetwork(), r.PostFormValue("logout_token"))
	if errors.Is(err, oidc.ErrLogout) { // nobody sees the response, and the provider may be misconfigured
		s.CountWrong(req.ClientNetwork())
		s.Log.Info("logout token refused", "error", err.Error(), "client", req.Client(), "request_id", req.ID)
	}
	if err != nil {
		return err
	}
	sessions, err := s.Store.RevokeExternal(r.Context(), ended.Issuer, ended.Subject, ended.SID, ended.IssuedAt.Add(time.Second))
	s.logEnded(r.Context(), observe.Revoked, sessions, "ended at the identity provider")
	if err != nil {
		return err
	}
	return c.NoContent(http.StatusOK)
}

// setFlowCookie sets a flow's cookie; a negative maxAge clears it. SameSite=Lax sends it with the redirect of the provider.
func (s *Service) setFlowCookie(h http.Header, id, value string, maxAge int) {
	cookie := http.Cookie{
		Name: s.flowPrefix + id, Value: value, Path: cmp.Or(s.Pages.Base, "/"), MaxAge: maxAge,
		HttpOnly: true, Secure: !s.Development, SameSite: http.SameSiteLaxMode,
	}
	h.Add("Set-Cookie", cookie.String())
}
