package contract

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"

	"worldevents/gen"
)

// Operation is an operation of the contract. Its methods may be called concurrently.
type Operation struct {
	// ID is the operationId.
	ID string
	// Path is spelled as in the contract, with {name} for a parameter.
	Method, Path string
	// Secured means that no alternative of the security is empty.
	Secured bool

	path, query, header []parameter
	body                *body // nil for an operation without one
	// refusesBodies means that an operation without a body has the response 413.
	refusesBodies bool
}

// Validate returns nil for a request that fits the contract. Its body can be read again, except that of an operation without one, which has
// ended. param returns a path parameter, percent-encoded as in the path. Validate returns ErrMediaType, ErrTooLarge or ErrMalformed, in
// this order, for a body that is not JSON, ErrTooLarge, where the contract has 413, for an unwanted one that does not end, or a
// FieldsError.
func (o *Operation) Validate(r *http.Request, param func(name string) string) error {
	var fields FieldsError
	for i := range o.path {
		p := &o.path[i]
		text, err := url.PathUnescape(param(p.name))
		fields.validateParameter(p, text, err == nil && utf8.ValidString(text))
	}
	fields.validateQuery(o.query, r.URL.RawQuery)
	for i := range o.header {
		p := &o.header[i]
		fields.validateValues(p, r.Header.Values(p.name))
	}
	if o.body == nil {
		if !drain(r) && o.refusesBodies {
			return ErrTooLarge
		}
	} else if err := o.body.validate(r, &fields); err != nil {
		return err
	}
	if len(fields) > 0 {
		return fields
	}
	return nil
}

func (e *FieldsError) validateQuery(parameters []parameter, raw string) {
	var query url.Values
	if raw != "" && len(parameters) > 0 {
		var err error
		if query, err = url.ParseQuery(raw); err != nil {
			e.add("query", "format", "must be percent-encoded")
			return
		}
	}
	for i := range parameters {
		p := &parameters[i]
		e.validateValues(p, query[p.name])
	}
}

func (e *FieldsError) validateValues(p *parameter, values []string) {
	switch len(values) {
	case 0:
		if p.required {
			e.add(p.name, "required", "is required")
		}
	case 1:
		e.validateParameter(p, values[0], true)
	default:
		e.add(p.name, "repeated", "must be given once")
	}
}

// validateParameter validates one value; decoded is false for a path that is not percent-encoded UTF-8.
func (e *FieldsError) validateParameter(p *parameter, text string, decoded bool) {
	if p.messages == nil {
		return
	}
	if !decoded {
		e.add(p.name, "format", p.messages[p.name])
		return
	}
	var value any = text
	if p.schema.Type.Is(openapi3.TypeInteger) {
		if n, err := strconv.ParseInt(text, 10, 64); !errors.Is(err, strconv.ErrSyntax) {
			value = n // or the nearest, which is beyond every maximum
		}
	}
	if err := p.schema.VisitJSON(value, allFaults...); err != nil {
		e.addFaults(err, p.name, p.messages)
	} else if !utf8.ValidString(text) {
		e.add(p.name, "format", p.messages[p.name])
	}
}

// parameter is the contract of a parameter. Without messages any text is valid.
type parameter struct {
	name     string
	required bool
	schema   *openapi3.Schema
	messages map[string]string // x-message, by the name
}

var (
	// formats replaces date-time by one that databases and clients can read.
	formats = openapi3.WithStringFormatValidators(map[string]openapi3.StringFormatValidator{
		"date-time": openapi3.NewCallbackValidator(func(text string) error {
			_, err := gen.ParseDateTime(text)
			return err
		}),
	})
	allFaults = []openapi3.SchemaValidationOption{formats, openapi3.MultiErrors(), openapi3.VisitAsRequest()}
)
