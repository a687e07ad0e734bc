package contract

import (
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// Load parses the contract and returns its operations in any order. A test compares the rules of openapi.yaml with those that Validate
// enforces.
func Load(text []byte) ([]*Operation, error) {
	var doc openapi3.T
	// The loader's own reading parses JSON as YAML, which is slower.
	if err := doc.UnmarshalJSON(text); err != nil {
		return nil, err
	}
	if err := openapi3.NewLoader().ResolveRefsIn(&doc, nil); err != nil {
		return nil, err
	}
	var all []*Operation
	for path, item := range doc.Paths.Map() {
		for method, from := range item.Operations() {
			op := newOperation(&doc, from)
			op.Method, op.Path = method, path
			all = append(all, op)
		}
	}
	return all, nil
}

func newOperation(doc *openapi3.T, from *openapi3.Operation) *Operation {
	security := doc.Security
	if from.Security != nil {
		security = *from.Security
	}
	isOptional := func(alternative openapi3.SecurityRequirement) bool { return len(alternative) == 0 }
	op := &Operation{
		ID:            from.OperationID,
		Secured:       len(security) > 0 && !slices.ContainsFunc(security, isOptional),
		refusesBodies: from.Responses.Status(http.StatusRequestEntityTooLarge) != nil,
	}
	for _, ref := range from.Parameters {
		op.addParameter(ref.Value)
	}
	if from.RequestBody != nil {
		op.body = newBody(from.RequestBody.Value)
	}
	return op
}

func (o *Operation) addParameter(from *openapi3.Parameter) {
	p := parameter{name: from.Name, required: from.Required, schema: newSchema(from.Schema)}
	if message := messageOf(p.schema); message != "" {
		p.messages = map[string]string{p.name: message}
	}
	switch from.In {
	case openapi3.ParameterInPath:
		o.path = append(o.path, p)
	case openapi3.ParameterInQuery:
		o.query = append(o.query, p)
	case openapi3.ParameterInHeader:
		o.header = append(o.header, p)
	}
}

func newBody(from *openapi3.RequestBody) *body {
	schema := newSchema(from.Content["application/json"].Schema)
	b := &body{schema, map[string]string{"body": messageOf(schema)}}
	for name, member := range schema.Properties {
		b.messages[name] = messageOf(member.Value)
	}
	return b
}

// newSchema returns a schema with what openapi3.Schema itself does not enforce: our own keyword, and patterns as in ECMA-262.
func newSchema(ref *openapi3.SchemaRef) *openapi3.Schema {
	ref.WalkSubtree(func(_ string, ref *openapi3.SchemaRef) error {
		s := ref.Value
		s.Pattern = goPattern(s.Pattern)
		if excluded, ok := s.Extensions[xExcluded].([]any); ok {
			s.Not = openapi3.NewSchema().WithEnum(excluded...).NewRef()
		}
		return nil
	})
	return ref.Value
}

// xExcluded lists excluded values: a pattern would be another promise to generated clients.
const xExcluded = "x-excluded"

// goPattern translates \s, which in Go is ASCII, to the white space of Unicode, as in ECMA-262. U+FEFF stays a valid name.
func goPattern(pattern string) string { return strings.ReplaceAll(pattern, `\s`, `\t-\r\pZ`) }

func messageOf(schema *openapi3.Schema) string {
	message, _ := schema.Extensions["x-message"].(string)
	return message
}
