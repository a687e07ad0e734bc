package contract

import (
	"net/http"
	"net/url"
)

// Operation is one operation of the contract. Its methods may be called concurrently.
type Operation struct {
	// ID is the operationId.
	ID string
	// Method is the HTTP method, and Path the path as the contract spells it, with {name} for a parameter.
	Method, Path string
	// Secured reports whether every alternative of the operation's security requires something.
	Secured bool

	schema operationSchema
}

// operationSchema is what the contract says of an operation's parameters and body.
type operationSchema struct {
	path, query, header []field
	body                *object // nil for an operation without one
	// refusesBodies means that the contract names 413 for an operation without a body.
	refusesBodies bool
}

// Validate returns nil for a request that fits the contract. Its body can then be read again from the beginning; the
// body of an operation that has none has ended, and means nothing. param returns a path parameter, percent-encoded as in the path.
//
// Validate returns ErrMediaType, ErrTooLarge or ErrMalformed for a body that is not read as JSON, in this order, ErrTooLarge
// for one that no operation wants and that does not end within 64 KiB and the time for reading, where the contract names 413, and
// otherwise a FieldsError with every field that does not fit.
func (o *Operation) Validate(r *http.Request, param func(name string) string) error {
	var fields FieldsError
	for i := range o.schema.path {
		f := &o.schema.path[i]
		text, err := url.PathUnescape(param(f.name))
		fields.validateParameter(f, text, err == nil)
	}
	fields.validateQuery(o.schema.query, r.URL.RawQuery)
	for i := range o.schema.header {
		f := &o.schema.header[i]
		fields.validateValues(f, r.Header.Values(f.name))
	}
	if o.schema.body == nil {
		if !drain(r) && o.schema.refusesBodies {
			return ErrTooLarge
		}
	} else if err := o.schema.body.validate(r, &fields); err != nil {
		return err
	}
	if len(fields) > 0 {
		return fields
	}
	return nil
}

func (e *FieldsError) validateQuery(parameters []field, raw string) {
	var query url.Values
	if raw != "" && len(parameters) > 0 {
		var err error
		if query, err = url.ParseQuery(raw); err != nil {
			e.add("query", "must be percent-encoded")
			return
		}
	}
	for i := range parameters {
		f := &parameters[i]
		e.validateValues(f, query[f.name])
	}
}

// validateValues validates a parameter of which there may be any number of values.
func (e *FieldsError) validateValues(f *field, values []string) {
	switch len(values) {
	case 0:
		if f.required {
			e.add(f.name, "is required")
		}
	case 1:
		e.validateParameter(f, values[0], true)
	default:
		e.add(f.name, "must be given once")
	}
}

// validateParameter validates the text of a parameter; decoded is false when its percent-encoding is broken.
func (e *FieldsError) validateParameter(f *field, text string, decoded bool) {
	if f.message != "" && !(decoded && f.fits(text)) {
		e.add(f.name, f.message)
	}
}
