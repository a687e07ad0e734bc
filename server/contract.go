package server

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/goccy/go-yaml"
	"github.com/labstack/echo/v4"

	"worldevents/gen"
)

// contract is openapi.yaml: what each operation demands, and the text to publish.
type contract struct {
	doc        *openapi3.T
	yaml, json []byte
}

// serverLine is where the contract names the service's address.
const serverLine = "\n  - url: /\n"

// loadContract reads openapi.yaml and puts the public address into it.
func loadContract(text []byte, baseURL string) (*contract, error) {
	if bytes.Count(text, []byte(serverLine)) != 1 {
		return nil, errors.New("servers: want exactly one entry with the url /")
	}
	text = bytes.Replace(text, []byte(serverLine), fmt.Appendf(nil, "\n  - url: %q\n", baseURL), 1)
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, err
	}
	json, err := yaml.YAMLToJSON(text) // keeps the order of the text
	return &contract{doc, text, json}, err
}

// middlewares returns what stands in front of each operation's handler, by operationId: what it is logged and counted
// as, requireAuth where the contract names security that cannot be left out, and the check of its parameters and body.
// The auth operations have neither, and answer for themselves. last comes after all these.
func (c *contract) middlewares(newOperation func(id, method string) *operation, requireAuth, last echo.MiddlewareFunc) map[string][]echo.MiddlewareFunc {
	all := make(map[string][]echo.MiddlewareFunc)
	for _, path := range c.doc.Paths.Map() {
		for method, op := range path.Operations() {
			chain := []echo.MiddlewareFunc{newOperation(op.OperationID, method).middleware}
			if secured(op) {
				chain = append(chain, requireAuth)
			}
			if len(op.Parameters) > 0 || op.RequestBody != nil {
				chain = append(chain, newDemands(op).check)
			}
			all[op.OperationID] = append(chain, last)
		}
	}
	return all
}

// secured tells whether every alternative of the operation's security asks for something.
func secured(op *openapi3.Operation) bool {
	if op.Security == nil {
		return false
	}
	for _, alternative := range *op.Security {
		if len(alternative) == 0 {
			return false
		}
	}
	return len(*op.Security) > 0
}

// demands are an operation's parameters and body.
type demands struct {
	path, query []*openapi3.Parameter
	body        *openapi3.Schema // nil for an operation without one
}

func newDemands(op *openapi3.Operation) *demands {
	d := new(demands)
	for _, p := range op.Parameters {
		if p.Value.In == openapi3.ParameterInPath {
			d.path = append(d.path, p.Value)
		} else {
			d.query = append(d.query, p.Value)
		}
	}
	if op.RequestBody != nil {
		d.body = op.RequestBody.Value.Content["application/json"].Schema.Value
	}
	return d
}

// check lets a request pass that meets the demands, and else names every field that does not.
func (d *demands) check(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		fields := make(map[string]string)
		for _, p := range d.path {
			value, err := url.PathUnescape(c.Param(p.Name))
			checkParameter(fields, p, value, err == nil)
		}
		d.checkQuery(fields, c.Request().URL.RawQuery)
		if err := d.checkBody(fields, c); err != nil {
			return err
		}
		if len(fields) > 0 {
			return errValidation.with(fields)
		}
		return next(c)
	}
}

func (d *demands) checkQuery(fields map[string]string, raw string) {
	if len(d.query) == 0 || raw == "" {
		return
	}
	query, err := url.ParseQuery(raw)
	if err != nil {
		fields["query"] = "must be percent-encoded"
		return
	}
	for _, p := range d.query {
		switch values := query[p.Name]; len(values) {
		case 0:
		case 1:
			checkParameter(fields, p, values[0], true)
		default:
			fields[p.Name] = "must be given once"
		}
	}
}

func (d *demands) checkBody(fields map[string]string, c echo.Context) error {
	if d.body == nil {
		discardBody(c.Request())
		return nil
	}
	value, err := readBody(c.Request())
	if err != nil {
		return err
	}
	collect(fields, "body", visit(d.body, value))
	return nil
}

// checkParameter notes in fields what is wrong with the text of a parameter.
func checkParameter(fields map[string]string, p *openapi3.Parameter, text string, decoded bool) {
	schema := p.Schema.Value
	var value any = text
	if schema.Type.Is(openapi3.TypeInteger) {
		n, err := strconv.ParseInt(text, 10, 64)
		decoded = decoded && err == nil
		value = float64(n)
	}
	if message := messageOf(schema); message != "" && (!decoded || !utf8.ValidString(text)) {
		fields[p.Name] = message
		return
	}
	collect(fields, p.Name, visit(schema, value))
}

// visit validates value as openapi.yaml describes it, but for date-times, which kin-openapi takes too lightly.
func visit(schema *openapi3.Schema, value any) error {
	if schema.Type.Is(openapi3.TypeString) && schema.Format == "" { // cannot be or hold a date-time
		return schema.VisitJSON(value, openapi3.MultiErrors())
	}
	return schema.VisitJSON(value, openapi3.MultiErrors(), openapi3.WithStringFormatValidator("date-time", dateTimes))
}

var dateTimes = openapi3.NewCallbackValidator(func(s string) error {
	_, err := gen.ParseDateTime(s)
	return err
})

// collect notes in fields what err says of each property, or of the whole.
func collect(fields map[string]string, whole string, err error) {
	var several openapi3.MultiError
	var one *openapi3.SchemaError
	switch {
	case err == nil:
	case errors.As(err, &several):
		for _, err := range several {
			collect(fields, whole, err)
		}
	case errors.As(err, &one):
		name := whole
		if path := one.JSONPointer(); len(path) > 0 {
			name = path[0]
		}
		switch message := messageOf(one.Schema); {
		case one.SchemaField == "required":
			fields[name] = "is required"
		case message != "":
			fields[name] = message
		default:
			fields[name] = one.Reason
		}
	default:
		fields[whole] = "does not fit the contract"
	}
}

// messageOf is what the contract itself says to people whose value does not fit the schema.
func messageOf(schema *openapi3.Schema) string {
	message, _ := schema.Extensions["x-message"].(string)
	return message
}
