package server

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"worldevents/server/internal/session"
)

const (
	attemptCookie = "signIn"
	// attemptTTL is how long somebody may take at the provider.
	attemptTTL = 10 * time.Minute
)

// attempt is a sign-in on its way: a random secret, when it ends, and where it leads. It is kept in a cookie of the
// browser that began it and nowhere else. State, nonce and PKCE verifier are hashes of the whole text, so a callback
// counts in this browser alone, and nothing in the text can be changed on the way.
type attempt struct {
	text     string // the cookie's value
	expires  time.Time
	returnTo string
}

func newAttempt(returnTo string, expires time.Time) attempt {
	text := fmt.Sprintf("%s.%d.%s", rand.Text(), expires.Unix(), base64.RawURLEncoding.EncodeToString([]byte(returnTo)))
	return attempt{text, expires, returnTo}
}

// parseAttempt reads a cookie. Whether its text is one that we wrote is for the state to tell.
func parseAttempt(text string) (attempt, bool) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return attempt{}, false
	}
	expires, err := strconv.ParseInt(parts[1], 10, 64)
	returnTo, err2 := base64.RawURLEncoding.DecodeString(parts[2])
	return attempt{text, time.Unix(expires, 0), string(returnTo)}, err == nil && err2 == nil
}

// state is what the callback must bring back (RFC 6749 section 10.12).
func (a attempt) state() string { return a.derive("state") }

// nonce is what the ID token must carry (OpenID Connect Core 1.0 section 15.5.2).
func (a attempt) nonce() string { return a.derive("nonce") }

// verifier is what proves to the token endpoint who began (RFC 7636 section 4.1).
func (a attempt) verifier() string { return a.derive("verifier") }

func (a attempt) derive(purpose string) string {
	mac := hmac.New(sha256.New, []byte(a.text))
	mac.Write([]byte(purpose))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// setAttempt keeps a in the browser; nil clears it. SameSite=Lax: it must come along when the provider sends the
// browser back, and with no other request of another site.
func (s *Server) setAttempt(h http.Header, a *attempt) {
	cookie := http.Cookie{
		Name: attemptCookie, Path: cmp.Or(s.base, "/"), MaxAge: -1,
		HttpOnly: true, Secure: !s.development, SameSite: http.SameSiteLaxMode,
	}
	if a != nil {
		cookie.Value, cookie.MaxAge = a.text, int(attemptTTL/time.Second)
	}
	h.Add("Set-Cookie", cookie.String())
}

// beginSignIn sends the browser to the identity provider.
func (s *Server) beginSignIn(c echo.Context) error {
	if !isTopLevel(c.Request()) {
		return errCrossOrigin
	}
	a := newAttempt(s.safeReturnURL(c.QueryParam("return_to")), s.now().Add(attemptTTL))
	callOf(c.Request().Context()).returnTo = a.returnTo
	to, err := s.provider.authorizeURL(c.Request().Context(), a)
	if err != nil {
		return err
	}
	s.setAttempt(c.Response().Header(), &a)
	return c.Redirect(http.StatusSeeOther, to)
}

// finishSignIn takes the browser back from the identity provider, and signs it in when all that it brings belongs to
// the attempt that it began. An attempt ends with the first callback that knows its state, however that goes.
func (s *Server) finishSignIn(c echo.Context) error {
	r, h := c.Request(), c.Response().Header()
	if !isTopLevel(r) {
		return errCrossOrigin
	}
	text, _ := session.Cookie(r.Header, attemptCookie) // cookies that disagree are no attempt
	a, ok := parseAttempt(text)
	if !ok {
		return fmt.Errorf("%w: no attempt in this browser", errSignIn)
	}
	answer := r.URL.Query()
	for _, values := range answer {
		if len(values) > 1 { // RFC 6749 section 3.1
			return fmt.Errorf("%w: repeated parameter", errSignIn)
		}
	}
	if !hmac.Equal([]byte(answer.Get("state")), []byte(a.state())) {
		return fmt.Errorf("%w: state of another attempt", errSignIn)
	}
	s.setAttempt(h, nil)
	returnTo := s.safeReturnURL(a.returnTo) // once more: what is allowed may have changed
	callOf(r.Context()).returnTo = returnTo
	if !s.now().Before(a.expires) {
		return fmt.Errorf("%w: attempt expired", errSignIn)
	}
	who, err := s.provider.redeem(r.Context(), a, answer)
	if err != nil {
		return err
	}
	issued, err := s.signInExternal(r.Context(), who)
	if err != nil {
		return err
	}
	s.sessions.SetCookies(h, issued)
	s.log.Info("signed in", "request_id", callOf(r.Context()).requestID, "user", issued.UserID)
	return c.Redirect(http.StatusSeeOther, returnTo)
}

// signInExternal issues a session to the user whom the identity provider vouches for, making the user if need be.
func (s *Server) signInExternal(ctx context.Context, who identity) (Session, error) {
	token, hash, expires := s.sessions.NewRefreshToken()
	user, err := s.store.SignInExternal(ctx, s.provider.Issuer, who.subject, who.username, hash, expires)
	if err != nil {
		return Session{}, err
	}
	return s.sessions.Issue(user, token), nil
}

// isTopLevel tells whether a person is on the way to see the answer (Fetch Metadata): not a frame, an image or a
// script of some page, and not a prefetch. Other pages may send people here, but not sign them in behind their backs.
func isTopLevel(r *http.Request) bool {
	dest := r.Header.Get("Sec-Fetch-Dest")
	return (dest == "" || dest == "document") && r.Header.Get("Sec-Purpose") == ""
}

// htmlErrors makes a page of an error when the request asks for HTML, and leaves a line in the log for each refusal
// (what is our fault or the provider's is logged with all errors).
func (s *Server) htmlErrors(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		call := callOf(c.Request().Context())
		call.wantsHTML = strings.Contains(c.Request().Header.Get("Accept"), "text/html")
		c.Response().Header().Set("Cache-Control", "no-store")
		err := next(c)
		if err != nil && problemOf(err).status < 500 {
			s.log.Warn("sign-in refused", "request_id", call.requestID, "error", err.Error())
		}
		return err
	}
}
