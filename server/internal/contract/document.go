package contract

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// Load parses the contract and returns its operations in any order, or an error, also for rules that Validate would not enforce.
func Load(text []byte) ([]*Operation, error) {
	var doc openapi3.T
	// The loader's own reading parses JSON as YAML, which is slower.
	if err := doc.UnmarshalJSON(text); err != nil {
		return nil, err
	}
	if err := openapi3.NewLoader().ResolveRefsIn(&doc, nil); err != nil {
		return nil, err
	}
	if doc.Paths.Len() == 0 {
		return nil, errors.New("want paths")
	}
	var all []*Operation
	for path, item := range doc.Paths.Map() {
		if len(item.Parameters) > 0 {
			return nil, fmt.Errorf("%s: want parameters in each operation", path)
		}
		for method, from := range item.Operations() {
			op, err := newOperation(&doc, from)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, path, err)
			}
			op.Method, op.Path = method, path
			all = append(all, op)
		}
	}
	return all, nil
}

func newOperation(doc *openapi3.T, from *openapi3.Operation) (*Operation, error) {
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
	if err := from.Validate(context.Background(), openapi3.EnableSchemaFormatValidation(), openapi3.DisableExamplesValidation()); err != nil {
		return nil, err
	}
	for _, ref := range from.Parameters {
		if err := op.addParameter(ref.Value); err != nil {
			return nil, fmt.Errorf("%s: %w", ref.Value.Name, err)
		}
	}
	if from.RequestBody != nil {
		var err error
		if op.body, err = newBody(from.RequestBody.Value); err != nil {
			return nil, fmt.Errorf("request body: %w", err)
		}
	}
	return op, nil
}

func (o *Operation) addParameter(from *openapi3.Parameter) error {
	schema, err := newSchema(from.Schema)
	if err != nil {
		return err
	}
	p := parameter{name: from.Name, required: from.Required, schema: schema}
	if message := messageOf(schema); message != "" {
		p.messages = map[string]string{p.name: message}
	}
	rules := *schema
	rules.Type = nil
	switch {
	case !schema.Type.Is(openapi3.TypeString) && !schema.Type.Is(openapi3.TypeInteger):
		return errors.New("want a string or an integer")
	case p.messages == nil && !rules.IsEmpty():
		return errors.New("want x-message")
	}
	switch from.In {
	case openapi3.ParameterInPath:
		o.path = append(o.path, p)
	case openapi3.ParameterInQuery:
		o.query = append(o.query, p)
	case openapi3.ParameterInHeader:
		o.header = append(o.header, p)
	default:
		return errors.New("want it in path, query or header")
	}
	return nil
}

func newBody(from *openapi3.RequestBody) (*body, error) {
	media := from.Content["application/json"]
	if !from.Required || len(from.Content) != 1 || media == nil {
		return nil, errors.New("want it required, and application/json alone")
	}
	schema, err := newSchema(media.Schema)
	if err != nil {
		return nil, err
	}
	if !schema.Type.Is(openapi3.TypeObject) || schema.AdditionalProperties.Schema != nil || messageOf(schema) == "" {
		return nil, errors.New("want an object, x-message, and no schema of other members")
	}
	b := &body{schema, map[string]string{"body": messageOf(schema)}}
	for name, ref := range schema.Properties {
		member := ref.Value
		if member.Type.Permits(openapi3.TypeArray) || member.Type.Permits(openapi3.TypeObject) || messageOf(member) == "" {
			return nil, fmt.Errorf("%s: want x-message, and neither an array nor an object", name)
		}
		b.messages[name] = messageOf(member)
	}
	return b, nil
}

// newSchema returns a schema with all rules enforced, or an error.
func newSchema(ref *openapi3.SchemaRef) (*openapi3.Schema, error) {
	if ref == nil {
		return nil, errors.New("want a schema")
	}
	if err := ref.WalkSubtree(enforce); err != nil {
		return nil, err
	}
	return ref.Value, nil
}

// enforce extends the rules that openapi3.Schema enforces. It returns an error for an unknown format.
func enforce(_ string, ref *openapi3.SchemaRef) error {
	s := ref.Value
	if s.Format != "" && s.Type.Permits(openapi3.TypeString) && openapi3.SchemaStringFormats[s.Format] == nil {
		return fmt.Errorf("would not be held to format %s", s.Format)
	}
	s.Pattern = goPattern(s.Pattern)
	if excluded, ok := s.Extensions[xExcluded]; ok {
		values, ok := excluded.([]any)
		if !ok || s.Not != nil {
			return fmt.Errorf("want a list in %s, and no schema in not", xExcluded)
		}
		s.Not = openapi3.NewSchema().WithEnum(values...).NewRef()
		delete(s.Extensions, xExcluded)
	}
	return nil
}

// xExcluded lists excluded values: a pattern would be another promise to generated clients.
const xExcluded = "x-excluded"

// goPattern translates \s, which in Go is ASCII, to the white space of Unicode, as in ECMA-262. U+FEFF stays a valid name.
func goPattern(pattern string) string { return strings.ReplaceAll(pattern, `\s`, `\t-\r\pZ`) }

func messageOf(schema *openapi3.Schema) string {
	message, _ := schema.Extensions["x-message"].(string)
	return message
}
