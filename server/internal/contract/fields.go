package contract

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"worldevents/gen"
)

// FieldsError is a request with fields that do not fit the contract. It maps each of them to what the field must be, for
// people. A field is a parameter or a member of the body; "body" is the body as a whole, and "query" a query that cannot
// be decoded.
type FieldsError map[string]string

// Error names the fields in the order of the alphabet.
func (e FieldsError) Error() string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(e)) {
		texts = append(texts, name+" "+e[name])
	}
	return strings.Join(texts, "; ")
}

// add makes the map for the first field: most requests have none.
func (e *FieldsError) add(name, message string) {
	if *e == nil {
		*e = make(FieldsError)
	}
	(*e)[name] = message
}

// validateValue validates value against schema. name is the field that value as a whole is.
func (e *FieldsError) validateValue(schema *openapi3.Schema, name string, value any) {
	if err := schema.VisitJSON(value, validationOptions...); err != nil {
		e.addFieldErrors(name, err)
	}
}

// validationOptions are made once, as every request needs it. kin-openapi's own date-times include February 30.
var validationOptions = []openapi3.SchemaValidationOption{
	openapi3.MultiErrors(),
	openapi3.WithStringFormatValidators(map[string]openapi3.StringFormatValidator{
		"date-time": openapi3.NewCallbackValidator(func(s string) error {
			_, err := gen.ParseDateTime(s)
			return err
		}),
	}),
}

// addFieldErrors adds what err says of each member of a value, or of the value called name as a whole.
func (e *FieldsError) addFieldErrors(name string, err error) {
	var several openapi3.MultiError
	var one *openapi3.SchemaError
	switch {
	case errors.As(err, &several):
		for _, err := range several {
			e.addFieldErrors(name, err)
		}
	case errors.As(err, &one):
		if path := one.JSONPointer(); len(path) > 0 {
			name = path[0]
		}
		switch message := schemaMessage(one.Schema); {
		case one.SchemaField == "required":
			e.add(name, "is required")
		case message != "":
			e.add(name, message)
		default:
			e.add(name, one.Reason)
		}
	default:
		e.add(name, "does not fit the contract")
	}
}

// schemaMessage returns the contract's own words for a value that does not fit the schema, or "".
func schemaMessage(schema *openapi3.Schema) string {
	message, _ := schema.Extensions["x-message"].(string)
	return message
}
