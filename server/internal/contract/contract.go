package contract

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

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
	path, query []*openapi3.Parameter
	body        *openapi3.Schema // nil for an operation without one
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
	for _, alternative := range alternatives {
		if len(alternative) == 0 {
			return false
		}
	}
	return len(alternatives) > 0
}

func newOperationSchema(op *openapi3.Operation) (s operationSchema, err error) {
	for _, ref := range op.Parameters {
		p := ref.Value
		if p.Schema == nil || !p.Schema.Value.Type.Is(openapi3.TypeString) && !p.Schema.Value.Type.Is(openapi3.TypeInteger) {
			return s, fmt.Errorf("parameter %s: want a string or an integer", p.Name)
		}
		p.Schema.Value.Pattern = goPattern(p.Schema.Value.Pattern)
		switch p.In {
		case openapi3.ParameterInPath:
			s.path = append(s.path, p)
		case openapi3.ParameterInQuery:
			s.query = append(s.query, p)
		default:
			return s, fmt.Errorf("parameter %s: want it in path or query", p.Name)
		}
	}
	if op.RequestBody != nil {
		body := op.RequestBody.Value
		content := body.Content["application/json"]
		if !body.Required || len(body.Content) != 1 || content == nil || content.Schema == nil {
			return s, errors.New("request body: want it required, and application/json alone")
		}
		s.body = content.Schema.Value
		for _, member := range s.body.Properties {
			member.Value.Pattern = goPattern(member.Value.Pattern)
		}
	}
	return s, nil
}

// goPattern returns a pattern as Go reads it, where \s is ASCII. In ECMA-262, the dialect of the contract's patterns, it is
// the white space of Unicode, and U+FEFF, which is none here: a byte order mark has always been a name.
func goPattern(pattern string) string { return strings.ReplaceAll(pattern, `\s`, `\t-\r\pZ`) }

// Validate returns nil for a request that fits the contract. Its body can then be read again from the beginning; the
// body of an operation that has none is dropped. param returns a path parameter, percent-encoded as in the path.
//
// Validate returns ErrMediaType, ErrTooLarge or ErrMalformed for a body that is not read as JSON, in this order, and
// otherwise a FieldsError with every field that does not fit.
func (o *Operation) Validate(r *http.Request, param func(name string) string) error {
	var fields FieldsError
	for _, p := range o.schema.path {
		text, err := url.PathUnescape(param(p.Name))
		fields.validateParameter(p, text, err == nil)
	}
	fields.validateQuery(o.schema.query, r.URL.RawQuery)
	if o.schema.body == nil {
		discardBody(r)
	} else {
		value, err := readBody(r)
		if err != nil {
			return err
		}
		fields.validateValue(o.schema.body, "body", value)
	}
	if len(fields) > 0 {
		return fields
	}
	return nil
}

func (e *FieldsError) validateQuery(parameters []*openapi3.Parameter, raw string) {
	var query url.Values
	if raw != "" && len(parameters) > 0 {
		var err error
		if query, err = url.ParseQuery(raw); err != nil {
			e.add("query", "must be percent-encoded")
			return
		}
	}
	for _, p := range parameters {
		switch values := query[p.Name]; len(values) {
		case 0:
			if p.Required {
				e.add(p.Name, "is required")
			}
		case 1:
			e.validateParameter(p, values[0], true)
		default:
			e.add(p.Name, "must be given once")
		}
	}
}

// validateParameter validates the text of a parameter; decoded is false when its percent-encoding is broken.
func (e *FieldsError) validateParameter(p *openapi3.Parameter, text string, decoded bool) {
	schema := p.Schema.Value
	var value any = text
	if schema.Type.Is(openapi3.TypeInteger) {
		n, err := strconv.ParseInt(text, 10, 64)
		decoded = decoded && err == nil
		value = float64(n)
	}
	if message := schemaMessage(schema); message != "" && (!decoded || !utf8.ValidString(text) || isExcluded(schema, text)) {
		e.add(p.Name, message)
		return
	}
	e.validateValue(schema, p.Name, value)
}

// isExcluded reports whether x-excluded has the text: what the description alone says, where a pattern would be another
// promise to generated clients.
func isExcluded(schema *openapi3.Schema, text string) bool {
	excluded, _ := schema.Extensions["x-excluded"].([]any)
	return slices.Contains(excluded, any(text))
}
