package server

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"worldevents/gen"
	"worldevents/models"
	"worldevents/server/internal/contract"
	"worldevents/server/internal/eventlist"
	"worldevents/server/internal/observe"
	"worldevents/server/internal/oidc"
	"worldevents/server/internal/session"
	"worldevents/server/internal/signin"
	"worldevents/server/internal/worlds"
)

// problem is an error as a client sees it. Any other error becomes errInternal.
type problem struct {
	status  int
	code    string // stable, for programs
	message string // human-readable
	fields  contract.FieldsError
}

func (p *problem) Error() string { return p.message }

func (p *problem) kind() observe.Kind { return observe.Kind{Status: p.status, Code: p.code} }

func (p *problem) with(fields contract.FieldsError) *problem {
	return &problem{p.status, p.code, p.message, fields}
}

func (p *problem) about(field, code, message string) *problem {
	return p.with(contract.FieldsError{field: {Code: code, Message: message}})
}

// All error responses, except the exact 400 bodies of the auth operations.
var (
	errValidation  = &problem{status: 400, code: "validation_failed", message: "The request does not fit the contract"}
	errCursor      = errValidation.about("cursor", "cursor", "must be a cursor from the Link of this world's list")
	errTooLong     = errValidation.about("limit", "list_size", "must be smaller, since the list would have more than 32 MiB")
	errForm        = errValidation.about("body", "format", "must be a form of at most 8 KiB that arrives within 2 seconds")
	errLargeForm   = errValidation.about("body", "format", "must be a form of at most 64 KiB")
	errUsername    = errValidation.about("username", "format", "must be 1 to 100 characters, not only white space, without control characters")
	errHost        = errValidation.about("Host", "format", "must name a host")
	errMalformed   = &problem{status: 400, code: "malformed_json", message: "The body is not one JSON document in UTF-8 without duplicate names"}
	errNoToken     = &problem{status: 401, code: "no_token", message: "Not authenticated"}
	errExpired     = &problem{status: 401, code: "token_expired", message: "Not authenticated"}
	errToken       = &problem{status: 401, code: "invalid_token", message: "Not authenticated"}
	errCrossOrigin = &problem{status: 403, code: "cross_origin", message: "Cross-origin request refused"}
	errForbidden   = &problem{status: 403, code: "forbidden", message: "The owner of this world does not let you do this"}
	errUnknownHost = &problem{status: 403, code: "unknown_host", message: "In development people sign in at localhost, an IP address or the host of BASE_URL alone"}
	errNoEvent     = &problem{status: 404, code: "event_not_found", message: "No such event"}
	errKeyUsed     = &problem{status: 409, code: "idempotency_conflict", message: "Another event was created with this Idempotency-Key"}
	errNotFound    = &problem{status: 404, code: "not_found", message: "No such path"}
	errMethod      = &problem{status: 405, code: "method_not_allowed", message: "The path does not have this method"}
	errSignIn      = &problem{status: 400, code: "invalid_sign_in", message: "This sign-in was not begun in this browser, took too long, or is over already"}
	errLogout      = &problem{status: 400, code: "invalid_logout_token", message: "This is not a current logout token of the identity provider"}
	errDenied      = &problem{status: 403, code: "access_denied", message: "The sign-in was cancelled, or the identity provider refused it"}
	errBlocked     = &problem{status: 403, code: "user_blocked", message: "This account is blocked"}
	errProvider    = &problem{status: 502, code: "provider_failed", message: "The identity provider is away, or gave no usable response"}
	errTooLarge    = &problem{status: 413, code: "body_too_large", message: "The body is larger than 64 KiB, or does not end"}
	errMediaType   = &problem{status: 415, code: "unsupported_media_type", message: "The body must be application/json in UTF-8"}
	errHeaders     = &problem{status: 431, code: "headers_too_large", message: "The request has more than 100 header lines"}
	errRate        = &problem{status: 429, code: "rate_limited", message: "Too many requests"}
	errOverloaded  = &problem{status: 503, code: "overloaded", message: "Overloaded"}
	errUnavailable = &problem{status: 503, code: "overloaded", message: "Database unavailable"}
	errWorlds      = &problem{status: 503, code: "overloaded", message: "The owner of the worlds does not answer"}
	errStarting    = &problem{status: 503, code: "overloaded", message: "Starting"}
	errInternal    = &problem{status: 500, code: "internal", message: "Internal error"}
)

// problems maps named errors to responses.
var problems = []struct {
	err error
	*problem
}{
	{models.ErrNoEvent, errNoEvent},
	{models.ErrKeyUsed, errKeyUsed},
	{models.ErrSignedOut, errToken},
	{models.ErrBlocked, errBlocked},
	{models.ErrUsername, errUsername},
	{worlds.ErrUnknown, errWorlds},
	{models.ErrBusy, errOverloaded},
	{models.ErrUnreachable, errUnavailable},
	{models.ErrNotWritten, errUnavailable},
	{models.ErrUnwritable, errUnavailable},
	{worlds.ErrForbidden, errForbidden},
	{contract.ErrMediaType, errMediaType},
	{contract.ErrTooLarge, errTooLarge},
	{contract.ErrMalformed, errMalformed},
	{eventlist.ErrCursor, errCursor},
	{eventlist.ErrTooLong, errTooLong},
	{session.ErrNoToken, errNoToken},
	{session.ErrExpired, errExpired},
	{session.ErrInvalid, errToken},
	{oidc.ErrFlow, errSignIn},
	{oidc.ErrLogout, errLogout},
	{oidc.ErrDenied, errDenied},
	{oidc.ErrProvider, errProvider},
	{oidc.ErrBusy, errOverloaded},
	{signin.ErrForm, errForm},
	{signin.ErrUnknownHost, errUnknownHost},
	{signin.ErrNotTopLevel, errCrossOrigin},
	{echo.ErrNotFound, errNotFound},
	{echo.ErrMethodNotAllowed, errMethod},
}

func problemOf(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	for _, known := range problems {
		if errors.Is(err, known.err) {
			return known.problem
		}
	}
	var fields contract.FieldsError
	if errors.As(err, &fields) {
		return errValidation.with(fields)
	}
	var generated *echo.HTTPError
	if errors.As(err, &generated) && generated.Code == http.StatusBadRequest {
		return errValidation // by the generated binding, of what the validation has let pass
	}
	return errInternal
}

// writeError writes the response for err. It is Echo's HTTPErrorHandler, so every failure ends here.
func (s *Server) writeError(err error, c echo.Context) {
	req := requestFrom(c.Request().Context())
	s.router.resolve(c, req)
	p := problemOf(err)
	req.Code = p.code
	if p.status >= 500 && (errors.Is(err, context.Canceled) || errors.Is(err, eventlist.ErrClientGone)) {
		req.Code = observe.ClientGone
	} else if p.status >= 500 {
		s.observer.LogFailure(&req.Request, err)
	}
	if c.Response().Committed {
		// The response has begun and must not look complete.
		panic(http.ErrAbortHandler)
	}
	h := c.Response().Header()
	h.Set("Cache-Control", "no-store")
	if p.status == http.StatusTooManyRequests || p.status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	if errors.Is(err, eventlist.ErrNoRoom) { // a client that reads nothing would keep a connection for each refusal
		closeAfter(c)
	}
	if s.pages.WriteError(c, p.status, p.message, req.ID) {
		return
	}
	var long *eventlist.TooLongError
	if errors.As(err, &long) && long.Link != "" {
		h.Set("Link", long.Link)
		p = errTooLong.about("limit", "list_size", "the next event alone would have more than 32 MiB: Link has the page behind it")
	}
	body := gen.APIError{Error: p.message, Code: p.code, RequestID: req.ID}
	if p.fields != nil {
		messages, codes := p.fields.Split()
		body.Fields, body.FieldCodes = &messages, &codes
	}
	if p == errInternal {
		detail := humanize(req.Series.ID) + ": " + safeCause(err)
		body.Detail = &detail
	}
	text, _ := json.Marshal(body, json.Deterministic(true))
	h.Set("Content-Type", "application/json")
	c.Response().WriteHeader(p.status)
	c.Response().Write(text)
}

// safeCause returns the class of err, which reveals nothing.
func safeCause(err error) string {
	for _, class := range []error{models.ErrUnavailable, models.ErrTimeout} {
		if errors.Is(err, class) {
			return class.Error()
		}
	}
	return "unexpected error"
}

// humanize spells an operationId in words: "create event" for createEvent.
func humanize(operation string) string {
	return strings.ToLower(capital.ReplaceAllString(operation, " $0"))
}

var capital = regexp.MustCompile(`[A-Z]`)
