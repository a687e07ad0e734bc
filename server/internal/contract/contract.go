package contract

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"
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

// Load reads openapi.yaml and returns its operations, in no particular order. It returns an error when the text is no
// contract, and when it has rules that Validate would not enforce.
func Load(text []byte) ([]*Operation, error) {
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, err
	}
	var all []*Operation
	for path, item := range doc.Paths.Map() {
		if len(item.Parameters) > 0 {
			return nil, fmt.Errorf("%s: want parameters in each operation", path)
		}
		for method, op := range item.Operations() {
			schema, err := newOperationSchema(op)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, path, err)
			}
			security := doc.Security
			if op.Security != nil {
				security = *op.Security
			}
			all = append(all, &Operation{op.OperationID, method, path, isSecured(security), schema})
		}
	}
	return all, nil
}

// isSecured reports whether there are alternatives, and each requires something.
func isSecured(alternatives openapi3.SecurityRequirements) bool {
	isOptional := func(alternative openapi3.SecurityRequirement) bool { return len(alternative) == 0 }
	return len(alternatives) > 0 && !slices.ContainsFunc(alternatives, isOptional)
}

func newOperationSchema(op *openapi3.Operation) (s operationSchema, err error) {
	for _, ref := range op.Parameters {
		p := ref.Value
		if p.Schema == nil {
			return s, fmt.Errorf("%s: want a schema", p.Name)
		}
		f, err := newField(p.Name, p.Required, p.Schema.Value)
		if err != nil {
			return s, err
		}
		switch p.In {
		case openapi3.ParameterInPath:
			s.path = append(s.path, f)
		case openapi3.ParameterInQuery:
			s.query = append(s.query, f)
		case openapi3.ParameterInHeader:
			s.header = append(s.header, f)
		default:
			return s, fmt.Errorf("%s: want it in path, query or header", p.Name)
		}
	}
	if op.RequestBody != nil {
		body := op.RequestBody.Value
		content := body.Content["application/json"]
		if !body.Required || len(body.Content) != 1 || content == nil || content.Schema == nil {
			return s, errors.New("request body: want it required, and application/json alone")
		}
		s.body, err = newObject(content.Schema.Value)
	}
	s.refusesBodies = op.Responses.Status(http.StatusRequestEntityTooLarge) != nil
	return s, err
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
